"""Mutants of chapter 90: errors, ownership, cost, observation."""

from __future__ import annotations

from kvproof.conformance.mutation.mutant import Mutant
from kvproof.conformance.mutation.patch import Patch

_BLOCK = "kvproof.reference.block"
_CORE = "kvproof.reference.core"
_INDEX = "kvproof.reference.index"
_LOOKUP = "kvproof.reference.lookup"
_REFERENCES = "kvproof.reference.references"
_REQUEST = "kvproof.reference.request"
_VALIDATE = "kvproof.reference.validate"

_ERRORS = (
    Mutant(
        name="append_stops_halfway",
        clauses=("ERR-ATOMIC-1", "ERR-TYPE-1"),
        fault="F04",
        harm="A refused append leaves the tokens before the bad one in the request, hashed with the next ones.",
        patch=Patch(
            _REQUEST,
            "self.tokens.extend(check_tokens(tokens))",
            'self.tokens.extend(check_int("a token", token, 0, 2**32 - 1) for token in tokens)',
        ),
    ),
    Mutant(
        name="refused_touch_takes_the_block_out",
        clauses=("ERR-ATOMIC-1",),
        fault="F04",
        harm="A touch that comes too late takes the block out of the queue for good.",
        patch=Patch(
            _REFERENCES,
            "        if not self._index.is_servable(key, block_id):\n",
            "        if not self._index.is_servable(key, block_id):\n"
            "            if block.ref_cnt == 0:\n"
            "                self._free.remove(block_id)\n",
        ),
    ),
    Mutant(
        name="bool_passes_for_an_integer",
        clauses=("ERR-TYPE-1",),
        fault="F03",
        harm="`allocate(has_room)` takes a block where a count was meant.",
        patch=Patch(_VALIDATE, "if type(value) is not int:", "if not isinstance(value, int):"),
    ),
    Mutant(
        name="string_passes_for_a_list",
        clauses=("ERR-TYPE-1",),
        fault="F03",
        harm='`free("")` frees nothing and says nothing, where a list of ids was meant.',
        patch=Patch(
            _VALIDATE,
            "if type(value) not in (list, tuple):",
            "if type(value) not in (list, tuple, str, bytes):",
        ),
    ),
    Mutant(
        name="any_bytes_pass_for_a_key",
        clauses=("ERR-TYPE-1",),
        fault="F10",
        harm="A digest without its group is looked up, and is simply never found.",
        patch=Patch(_CORE, "if type(key) is not bytes or len(key) != size:", "if type(key) is not bytes:"),
    ),
    Mutant(
        name="request_of_another_contract_is_taken",
        clauses=("ERR-TYPE-1",),
        fault="F06",
        harm="A request hashed with another seed or unit fills the cache with keys that nobody else computes.",
        patch=Patch(_CORE, "if request.hasher != self.hasher:", "if request.hasher is None:"),
    ),
)

_OWNER_AND_COST = (
    Mutant(
        name="refused_thread_unlocks_the_pool",
        clauses=("ERR-OWNER-1",),
        fault="F03",
        harm="The first refused call opens the pool to the second one, in the middle of an operation.",
        patch=Patch(
            _CORE,
            "            raise ConcurrentUse(",
            "            self._busy.release()\n            raise ConcurrentUse(",
        ),
    ),
    Mutant(
        name="second_thread_is_let_in",
        clauses=("ERR-OWNER-1",),
        fault="F03",
        harm="Two threads that share a pool take the same block.",
        patch=Patch(
            _CORE,
            "        if not self._busy.acquire(blocking=False):\n",
            "        if self._busy.locked():\n            return method(self, *args, **kwargs)\n"
            "        if not self._busy.acquire(blocking=False):\n",
        ),
    ),
    Mutant(
        name="failed_operation_leaves_the_pool_locked",
        clauses=("ERR-ATOMIC-1", "ERR-OWNER-1"),
        fault="F03",
        harm="After the first refused request the engine answers nobody any more.",
        patch=Patch(
            _CORE,
            "            return result\n        except BaseException:\n            self._log.discard()\n"
            "            raise\n        finally:\n            self._busy.release()\n",
            "            self._busy.release()\n            return result\n        except BaseException:\n"
            "            self._log.discard()\n            raise\n",
        ),
    ),
    Mutant(
        name="taking_a_block_out_walks_the_queue",
        clauses=("COST-1",),
        fault="F17",
        harm="A hit costs time in proportion to the pool: milliseconds for each block of a large one.",
        patch=Patch(
            _BLOCK,
            "        del self._order[block_id]\n",
            "        self._order = OrderedDict.fromkeys([other for other in self._order if other != block_id])\n",
        ),
    ),
    Mutant(
        name="free_blocks_are_counted_anew",
        clauses=("COST-1",),
        fault="F17",
        harm="Every allocation scans all blocks of the pool.",
        patch=Patch(_BLOCK, "        return len(self._order)\n", "        return sum(1 for _ in self._order)\n"),
    ),
    Mutant(
        name="lookup_searches_the_index",
        clauses=("COST-1",),
        fault="F17",
        harm="Every lookup walks all cached keys.",
        patch=Patch(
            _INDEX,
            "        return next((block for block in self._in_order(key) if allowed(key, block)), None)\n",
            "        found = [block for cached, block in self._block_of.items() if cached == key]\n"
            "        return next((b for b in found or self._in_order(key) if allowed(key, b)), None)\n",
        ),
    ),
)

_OBSERVE = (
    Mutant(
        name="observation_leaves_out_what_was_served",
        clauses=("OBSERVE-1",),
        fault="F09",
        harm="Two pools compare equal, and only one of them lets the writer go on.",
        patch=Patch(
            _LOOKUP,
            "holders=tuple(sorted(block.holders.items())),",
            "holders=tuple((name, None) for name in sorted(block.holders)),",
        ),
    ),
    Mutant(
        name="observation_leaves_out_the_slot",
        clauses=("OBSERVE-1",),
        fault="F07",
        harm="Two pools compare equal, and only one of them lets the block be registered.",
        patch=Patch(_LOOKUP, "            slot=block.slot,\n", "            slot=None,\n"),
    ),
    Mutant(
        name="observation_sorts_the_queue",
        clauses=("OBSERVE-1",),
        fault="F16",
        harm="Two pools compare equal and give out different blocks.",
        patch=Patch(_LOOKUP, "free_queue=tuple(self._free)", "free_queue=tuple(sorted(self._free))"),
    ),
    Mutant(
        name="observation_drains_the_events",
        clauses=("OBSERVE-1",),
        fault="F14",
        harm="A monitor that looks at the pool takes the events away from the router.",
        patch=Patch(_LOOKUP, "pending_events=self._log.pending,", "pending_events=tuple(self._log.drain()),"),
    ),
)

MUTANTS = (*_ERRORS, *_OWNER_AND_COST, *_OBSERVE)
