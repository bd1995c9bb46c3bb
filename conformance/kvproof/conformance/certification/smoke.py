"""The smoke stage: is the adapter right? It judges the adapter before anything judges the backend."""

from __future__ import annotations

from kvproof.conformance.backends.interface import AdapterError
from kvproof.conformance.certification.settings import plain_pool
from kvproof.conformance.certification.stages import Outcome, Subject
from kvproof.conformance.operations import AddRequest, Allocate, BeginStep, Commit, Free, Lookup
from kvproof.spec.vocabulary import CommitMode, HolderMode


def smoke(subject: Subject) -> Outcome:
    """A few operations that any pool gets right.

    Raises `AdapterError` if this one does not.
    """
    config = plain_pool(subject.capabilities)
    holder = "r1" if config.holders is HolderMode.NAMED else None
    done = Outcome("smoke")
    for _ in range(2):  # the second pool shows whether the first is forgotten
        lockstep = subject.beside_the_reference(config)
        steps = config.commit is CommitMode.STEPS
        lockstep.run([AddRequest("r1", (1, 2, 3, 4)), *[BeginStep()] * steps])
        lockstep.run([Allocate(holder, 1), Lookup(()), Free(holder, (1,)), *[Commit(1)] * steps])
        done.add(lockstep)
        if lockstep.divergence is not None:
            [first, *_] = lockstep.divergence.differences
            raise AdapterError(
                f"not even the smoke test passes: expected was {first.what} {first.expected!r}, "
                f"got {first.got!r}; look at the adapter first"
            )
    return done
