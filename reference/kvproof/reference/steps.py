"""What the pool knows of steps: how far they are, who depends on whom, which copies belong to them (clauses STEP-*)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from kvproof.spec.vocabulary import Holder


@dataclass(frozen=True, slots=True)
class CopyInFlight:
    """A copy or a move of a step, and the holder that keeps both its ends referenced."""

    src: int
    dst: int
    holder: Holder

    @property
    def ends(self) -> tuple[tuple[int, Holder], tuple[int, Holder]]:
        """The references that it keeps, the source's first."""
        return (self.src, self.holder), (self.dst, self.holder)


@dataclass(slots=True)
class StepLedger:
    """Steps are numbered from 1; those after `committed` up to `current` are open."""

    current: int = 0
    committed: int = 0
    calls: int = 0
    """How many registering calls there were; tells the runs of different calls apart."""
    admitted: dict[int, dict[Holder, None]] = field(default_factory=dict)
    """open step -> the requests that registered in it, in the order of their first registration."""
    attached: dict[tuple[int, Holder], int] = field(default_factory=dict)
    """(block id, reader) -> the open step whose reserved key the reader attached."""
    depends: dict[tuple[Holder, Holder], int] = field(default_factory=dict)
    """(reader, writer) -> the latest open step whose reserved key the reader attached."""
    copies: dict[int, list[CopyInFlight]] = field(default_factory=dict)
    """open step -> its copies in queued order."""
    kept: dict[tuple[int, Holder], int] = field(default_factory=dict)
    """(block id, holder) -> how many copies of open steps keep this reference."""

    def begin(self) -> int:
        """Open the next step."""
        self.current += 1
        return self.current

    def cancel(self) -> None:
        """Take back the opening of the current step, in which nothing happened."""
        self.current -= 1

    def admit(self, request_id: Holder) -> int:
        """A request registers in the current step; the number of the call."""
        self.admitted.setdefault(self.current, {}).setdefault(request_id)
        self.calls += 1
        return self.calls

    def attach(self, block_id: int, reader: Holder, writer: Holder, step: int) -> None:
        """A reader attached a key that the writer reserved in an open step."""
        self.attached[block_id, reader] = step
        self.depends[reader, writer] = max(step, self.depends.get((reader, writer), 0))

    def queue(self, copy: CopyInFlight) -> None:
        """The copy belongs to the current step."""
        self.copies.setdefault(self.current, []).append(copy)
        for end in copy.ends:
            self.kept[end] = self.kept.get(end, 0) + 1

    def dependents(self, requests: Iterable[Holder]) -> list[Holder]:
        """The requests and everyone who depends on one of them, directly or through others, in the order found."""
        found = list(dict.fromkeys(requests))
        for writer in found:  # grows while it is walked
            found += [reader for reader, needed in self.depends if needed == writer and reader not in found]
        return found

    def forget(self, requests: Iterable[Holder]) -> list[tuple[int, Holder]]:
        """The requests attach to nothing and depend on nobody any more; what they had attached in open steps."""
        gone = set(requests)
        taken_back = [claim for claim in self.attached if claim[1] in gone]
        for claim in taken_back:
            del self.attached[claim]
        self.depends = {pair: step for pair, step in self.depends.items() if pair[0] not in gone}
        return taken_back

    def close(self) -> list[tuple[int, Holder]]:
        """The next step is committed, its copies are done; the references that no copy keeps any more, in order."""
        self.committed += 1
        self.admitted.pop(self.committed, None)
        self.attached = {claim: step for claim, step in self.attached.items() if step > self.committed}
        self.depends = {pair: step for pair, step in self.depends.items() if step > self.committed}
        return [end for copy in self.copies.pop(self.committed, []) for end in copy.ends if self._let_go(end)]

    def clone(self) -> StepLedger:
        """An independent copy."""
        return StepLedger(
            self.current,
            self.committed,
            self.calls,
            {step: dict(requests) for step, requests in self.admitted.items()},
            dict(self.attached),
            dict(self.depends),
            {step: list(copies) for step, copies in self.copies.items()},
            dict(self.kept),
        )

    def _let_go(self, end: tuple[int, Holder]) -> bool:
        """One copy less keeps the reference; whether it was the last one."""
        self.kept[end] -= 1
        if self.kept[end]:
            return False
        del self.kept[end]
        return True
