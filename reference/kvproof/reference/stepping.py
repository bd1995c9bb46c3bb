"""Steps: begin, commit, attach, rollback, finish (clauses STEP-*)."""

from __future__ import annotations

from collections.abc import Sequence

from kvproof.reference.core import operation, step_operation
from kvproof.reference.lookup import Lookup
from kvproof.reference.references import References
from kvproof.reference.validate import check_int, check_list, check_name, shown
from kvproof.spec.errors import InvalidArgument, NoOpenStep, NotCached, OutOfOrder
from kvproof.spec.vocabulary import COPY_PREFIX, CommitMode, Holder, Key


class Stepping(References, Lookup):
    """Keys of work in flight: reserved, then committed."""

    @operation
    def begin_step(self) -> int:
        """Open the next step and return its number (STEP-OPEN-1)."""
        self._check_steps()
        return self._steps.begin()

    @operation
    def commit(self, step: int) -> None:
        """Publish the entries of the step, the oldest open one (STEP-COMMIT-*). Raises OutOfOrder."""
        self._check_steps()
        check_int("step", step, 1)
        if not self._steps.committed + 1 == step <= self._steps.current:
            raise OutOfOrder(
                f"step {shown(step)} cannot be committed; open are the steps after {self._steps.committed} "
                f"up to {self._steps.current}, and the first of them comes first"
            )
        self._commit_next_step()

    @step_operation
    def attach(self, block_id: int, key: Key, holder: Holder) -> None:
        """Add a reference of a request that will read what the block's writer reserved (STEP-ATTACH-*).

        Raises NotCached (the key is not reserved there, not full, or not of full attention) and AlreadyHeld.
        """
        self._check_steps()
        block = self._block(block_id)
        self._check_key(key)
        check_name("holder", holder)
        if holder.startswith(COPY_PREFIX):
            raise InvalidArgument(f"{holder!r} is a copy; only requests attach")
        status = self._index.unready(key, block_id)
        if status is None or status.reservation is None or not self._is_attachable(key, block_id):
            raise NotCached(f"block {block_id} has no full key {key.hex()} of full attention reserved; look again")
        self._add_reader(block, key, holder)
        self._steps.attach(block_id, holder, status.reservation.owner, status.step)

    @operation
    def rollback(self, requests: Sequence[Holder]) -> list[Holder]:
        """Take back what the requests have not committed, and everyone who depends on them (STEP-ROLLBACK-*).

        Returns all of them, those named first.
        """
        self._check_steps()
        return self._roll_back(self._check_requests(requests))

    @operation
    def finish(self, request_id: Holder, block_ids: Sequence[int]) -> list[Holder]:
        """Roll the request back, then free its blocks in the order given (STEP-FINISH-1).

        Returns all requests that were rolled back. Raises like `free`.
        """
        affected = self._steps.dependents(self._check_requests([request_id]))
        self._check_holder(request_id)
        blocks = [block for block in self._block_list(block_ids) if not block.is_null]
        self._check_releases(blocks, request_id, taken_back=frozenset(affected))
        self._roll_back([request_id])
        self._release(blocks, request_id)
        return affected

    def _roll_back(self, requests: Sequence[Holder]) -> list[Holder]:
        affected = self._steps.dependents(requests)
        for key, block_id, status in list(self._index.unready_entries()):
            if status.reservation is not None and status.reservation.owner in affected:
                self._drop_keys(block_id, [key])
        for block_id, reader in self._steps.forget(affected):
            self._blocks[block_id].holders[reader] = None
            if self.ghost is not None:
                del self.ghost.served[block_id, reader]
        if self.ghost is not None:
            for block_id in self.ghost.changed_since(self._steps.committed):
                if self._blocks[block_id].writer in affected:
                    self.ghost.take_back(block_id, self._steps.committed, self._blocks[block_id].born, self.config)
        return affected

    def _check_steps(self) -> None:
        if self.config.commit is not CommitMode.STEPS:
            raise NoOpenStep("this pool commits immediately and knows no steps; configure it with commit=steps")

    def _check_requests(self, requests: object) -> list[Holder]:
        names = [check_name("a request", name) for name in check_list("requests", requests)]
        for name in names:
            if name.startswith(COPY_PREFIX):
                raise InvalidArgument(f"{name!r} is a copy; only requests are rolled back")
        return names
