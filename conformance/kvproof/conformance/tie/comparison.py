"""When two states of the machine are the same: everything that can ever be observed, nothing that only proofs use."""

from __future__ import annotations

from kvproof.conformance.tie.abstraction import Universe
from kvproof.spec.machine.theory import State
from kvproof.spec.vocabulary import Residency

Observed = dict[str, object]
"""What is seen of a state, by name; equal states have equal values."""


def observed(s: State, universe: Universe) -> Observed:
    """What is seen of a state; steps are counted from the last committed one."""
    return {
        **_references(s, universe),
        **_entries(s, universe),
        **_steps(s, universe),
        **_content(s, universe),
        **_consumer(s, universe),
        "requests": {r: _request(s, r, universe) for r in universe.holders if s.is_request(r)},
    }


def differences(machine: State, reference: State, universe: Universe) -> list[str]:
    """Where the two sides disagree, one line each."""
    ours, theirs = observed(machine, universe), observed(reference, universe)
    return [f"{name}: machine {ours[name]}, reference {theirs[name]}" for name in ours if ours[name] != theirs[name]]


def _references(s: State, universe: Universe) -> Observed:
    blocks = range(universe.config.num_blocks)
    free = [b for b in blocks if s.is_free(b)]
    return {
        "references": [s.ref_cnt(b) for b in blocks],
        "holders": [[r for r in universe.holders if s.holds(b, r)] for b in blocks],
        "writers": [[r for r in universe.holders if s.writes(b, r)] for b in blocks],
        "queue": sorted(free, key=s.place),
        "slots": [(s.group(b), s.start(b)) if s.placed(b) else None for b in blocks],
    }


def _entries(s: State, universe: Universe) -> Observed:
    def status(k: bytes, b: int) -> tuple[object, ...]:
        owner = None if s.committed(k, b) else s.owner(k, b)
        return k, max(0, s.ready(k, b) - s.done()), owner

    blocks = range(universe.config.num_blocks)
    on_block = {b: sorted((k for k in universe.keys if s.entry(k, b)), key=lambda k: s.rank(k, b)) for b in blocks}
    return {
        "keys of blocks": {b: [status(k, b) for k in keys] for b, keys in on_block.items()},
        "blocks of keys": {
            k: sorted((b for b in blocks if s.entry(k, b)), key=lambda b: s.rank(k, b)) for k in universe.keys
        },
        "reverse index": {b: {k for k in universe.keys if s.listed(b, k)} for b in blocks},
    }


def _steps(s: State, universe: Universe) -> Observed:
    pairs = [(r, w) for r in universe.holders for w in universe.holders]
    return {
        "open steps": s.now() - s.done(),
        "dependencies": {(r, w): s.depends(r, w) - s.done() for r, w in pairs if s.depends(r, w) > s.done()},
        "ages": [max(0, s.born(b) - s.done()) for b in range(universe.config.num_blocks)],
    }


def _content(s: State, universe: Universe) -> Observed:
    blocks = range(universe.config.num_blocks)
    readers = [(b, r) for b in blocks for r in universe.holders]

    def held(b: int, i: int) -> object:
        """What the block holds after a step of its present life; what it held before is nobody's any more."""
        content = s.content(b, i) if i >= s.born(b) else None
        return (content, s.content_group(b, i)) if content else None

    return {
        "content": {b: [held(b, i) for i in range(s.done(), s.now() + 1)] for b in blocks},
        "copies under way": [max(0, s.filled(b) - s.done()) for b in blocks],
        "served": {(b, r): [p for p in universe.prefixes if s.served(b, r, p)] for b, r in readers},
        "attached": {(b, r): max(0, s.attached(b, r) - s.done()) for b, r in readers},
    }


def _consumer(s: State, universe: Universe) -> Observed:
    seen: Observed = {
        "resident": {k for k in universe.keys if s.resident(k)},
        "event faults": (s.removed_absent(), s.stored_resident(), s.stored_orphan()),
    }
    if universe.config.residency is Residency.PER_COPY:
        seen["copies"] = {k: s.believed_copies(k) for k in universe.keys}
    return seen


def _request(s: State, r: str, universe: Universe) -> object:
    h = universe.config.hash_block_size
    return s.text(r), s.hashed(r), [s.hash_at(r, n) for n in range(h, s.hashed(r) + 1, h)]
