"""Python reads an arena by the places where the compiler has put its fields."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from kvproof.gpu_backend import BlockPool
from kvproof.gpu_backend.arena import FIELDS, HEADER, REGIONS, column_of, width_of
from kvproof.spec.vocabulary import CommitMode, HashAlgorithm
from tests.gpu_backend.pools import config
from tests.gpu_backend.variants import run_tool, sabotaged

SWAPPED = {
    "  int64_t current, committed; ": "  int64_t committed, current; ",
    "  int32_t next_of_block;\n  int32_t position; ": "  int32_t position;\n  int32_t next_of_block; ",
    "  int32_t position;\n  int32_t attached; ": "  int32_t attached;\n  int32_t position; ",
    "kPendings,\n  kDependencies,": "kDependencies,\n  kPendings,",
}
"""Fields and regions of `layout.h` that change places."""


@pytest.mark.skipif(shutil.which("c++") is None, reason="there is no C++ compiler")
def test_fields_that_change_places_are_still_read_by_their_names(tmp_path: Path) -> None:
    root = sabotaged(tmp_path, {})
    layout = root / "kvproof" / "gpu_backend" / "native" / "layout.h"
    text = layout.read_text(encoding="utf-8")
    for right, other in SWAPPED.items():
        assert text.count(right) == 1, right
        text = text.replace(right, other)
    layout.write_text(text, encoding="utf-8")
    told = run_tool("fuzz_core.py", ["--calls", "4000", "--processes", "1"], backend=root)
    assert "0 mismatches" in told


@pytest.mark.parametrize("algorithm", HashAlgorithm)
def test_rows_are_as_wide_as_those_of_the_core(algorithm: HashAlgorithm) -> None:
    views = BlockPool(config(algorithm=algorithm, commit=CommitMode.STEPS)).views()
    header = views.header.tolist()
    words = header[HEADER["digest_words"]]
    numbers = {number: name for name, number in REGIONS.items()}
    for name, number in REGIONS.items():
        if name not in FIELDS or numbers.get(number + 1) is None:
            continue
        at, following = header[HEADER["offset"] + number : HEADER["offset"] + number + 2]
        needed = header[HEADER["rows"] + number] * width_of(name, words)
        assert 0 <= following - at - needed < 16, name


def test_where_a_field_stands() -> None:
    assert column_of("entries", "digest", 8) == 0
    assert column_of("entries", "block", 8) == 8
    assert (column_of("readers", "digest", 8), width_of("readers", 8)) == (5, 13)
    assert width_of("groups") == 4
