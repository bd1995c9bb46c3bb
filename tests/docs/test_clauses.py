import pytest

from kvproof.spec.clauses import Chapter, Level, MalformedChapter, chapters, clauses, parse_clauses


def chapter(text: str) -> Chapter:
    return Chapter("00-test", "Test", f"# Test\n\n{text}")


def test_a_clause_is_its_heading_its_sentence_and_its_notes() -> None:
    [clause] = parse_clauses(chapter("### A-B-1 (MUST)\n\nIt holds.\n\n*Why.* Because.\n\n## Next\n\nProse.\n"))

    assert (clause.id, clause.level, clause.sentence, clause.notes) == (
        "A-B-1",
        Level.MUST,
        "It holds.",
        "*Why.* Because.",
    )


@pytest.mark.parametrize(
    "text",
    [
        "### A-B-1\n\nNo level.",
        "### A-B-1 (OUGHT)\n\nNo such level.",
        "### a-b-1 (MUST)\n\nLower case.",
        "### A-B (MUST)\n\nNo number.",
        "### A-B-1 (MUST)\n",
        "### A-B-1 (MUST)\n\nA sentence\nover two lines.",
    ],
)
def test_a_malformed_clause_is_refused(text: str) -> None:
    with pytest.raises(MalformedChapter):
        parse_clauses(chapter(text))


def test_the_chapters_are_read_in_order_and_hold_all_clauses() -> None:
    assert [chapter.name for chapter in chapters()] == sorted(chapter.name for chapter in chapters())
    assert list(clauses()) == [clause.id for chapter in chapters() for clause in parse_clauses(chapter)]
    assert len(clauses()) > 100


def test_every_sentence_ends_with_a_full_stop_and_stands_alone() -> None:
    sentences = {clause.id: clause.sentence for clause in clauses().values()}

    assert [clause_id for clause_id, sentence in sentences.items() if not sentence.endswith(".")] == []
    assert len(set(sentences.values())) == len(sentences)
