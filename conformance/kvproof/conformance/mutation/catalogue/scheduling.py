"""Mutants of chapter 89: scheduling."""

from __future__ import annotations

from kvproof.conformance.mutation.mutant import Mutant
from kvproof.conformance.mutation.patch import Patch

_POLICIES = "kvproof.reference.hybrid.policies"
_SCHEDULER = "kvproof.reference.hybrid.scheduler"

_SCHEDULE = (
    Mutant(
        name="budget_is_that_of_each_chunk",
        clauses=("SCHED-BUDGET-1",),
        fault="F11",
        harm="A step holds more tokens than the model's buffers.",
        patch=Patch(
            _SCHEDULER,
            "cap, self.limits.token_budget - schedule.num_tokens)",
            "cap, self.limits.token_budget)",
        ),
    ),
    Mutant(
        name="junction_past_the_tokens_is_asked_for",
        clauses=("SPLIT-RANGE-1",),
        fault="F11",
        harm="A request that is truncated before its junction ends the engine with an error.",
        patch=Patch(
            _SCHEDULER,
            "cap, min(junction, job.request.num_tokens))",
            "cap, junction)",
        ),
    ),
    Mutant(
        name="threshold_is_ignored",
        clauses=("SCHED-BUDGET-1",),
        fault="F11",
        harm="A long prompt takes the whole step, whatever the limit says.",
        patch=Patch(
            _SCHEDULER,
            "return min(self.limits.token_budget, threshold, other)",
            "return min(self.limits.token_budget, other)",
        ),
    ),
    Mutant(
        name="preempted_chunk_keeps_its_tokens",
        clauses=("SCHED-BUDGET-1",),
        fault="F04",
        harm="The step is sent to the device with a chunk that has no blocks any more.",
        patch=Patch(
            _SCHEDULER,
            "            schedule.chunks.pop(name, None)\n",
            "",
        ),
    ),
    Mutant(
        name="priority_is_ignored",
        clauses=(
            "SCHED-ORDER-1",
            "SCHED-PREEMPT-1",
        ),
        fault="F11",
        harm="Urgent requests wait behind all that came before.",
        patch=Patch(
            _POLICIES,
            "return (priority if self is Rank.PRIORITY else 0, arrival)",
            "return (0, arrival)",
        ),
    ),
    Mutant(
        name="last_come_first_served",
        clauses=("SCHED-ORDER-1",),
        fault="F11",
        harm="Under load the oldest request never gets its turn.",
        patch=Patch(
            _SCHEDULER,
            "ranked = sorted(self.jobs.values(), key=lambda job: job.rank)",
            "ranked = sorted(self.jobs.values(), key=lambda job: job.rank, reverse=True)",
        ),
    ),
    Mutant(
        name="empty_chunk_stops_those_behind_it",
        clauses=("SCHED-EMPTY-1",),
        fault="F11",
        harm="A prefill that waits for a whole block stops the queue, and with it the engine.",
        patch=Patch(
            _SCHEDULER,
            "        if end is None:\n            return True",
            "        if end is None:\n            return False",
        ),
    ),
    Mutant(
        name="nobody_starves",
        clauses=("SCHED-STARVE-1",),
        fault="F11",
        harm="Beside a few requests that decode, a prefill that needs a whole block never begins.",
        patch=Patch(
            _SCHEDULER,
            "starved = [job for job in ranked if job.empty >= self.limits.most_empty]",
            "starved = [job for job in ranked if job.empty < 0]",
        ),
    ),
    Mutant(
        name="whoever_starved_once_stays_first",
        clauses=("SCHED-STARVE-1",),
        fault="F11",
        harm="Decodes wait behind every chunk of a prefill that had to wait once.",
        patch=Patch(
            _SCHEDULER,
            "job.empty = 0 if end > start else job.empty + 1",
            "job.empty += end == start",
        ),
    ),
    Mutant(
        name="request_that_never_fits_is_taken",
        clauses=("SCHED-REFUSE-1",),
        fault="F11",
        harm="A request that is larger than the pool is preempted and resumed for ever.",
        patch=Patch(
            _SCHEDULER,
            "        if needed > there_are:",
            "        if needed < 0:",
        ),
    ),
    Mutant(
        name="null_block_counts_as_room",
        clauses=("SCHED-REFUSE-1",),
        fault="F03",
        harm="A request that needs every block and one more is taken, and waits for ever.",
        patch=Patch(
            _SCHEDULER,
            "self.cache.pool.config.num_blocks - 1",
            "self.cache.pool.config.num_blocks",
        ),
    ),
    Mutant(
        name="only_the_first_cap_is_checked",
        clauses=("SCHED-REFUSE-1",),
        fault="F11",
        harm="A request stops for ever where the model's own limit lets no token through.",
        patch=Patch(
            _SCHEDULER,
            "        for start in range(most_tokens):",
            "        for start in range(request.num_tokens):",
        ),
    ),
    Mutant(
        name="tokens_past_the_most_are_taken",
        clauses=("SCHED-REFUSE-1",),
        fault="F11",
        harm="A request grows past the pool that it was checked against, and waits for blocks that there are not.",
        patch=Patch(
            _SCHEDULER,
            "        if total > job.most_tokens:",
            "        if total < 0:",
        ),
    ),
    Mutant(
        name="request_that_cannot_run_waits",
        clauses=("SCHED-REFUSE-1",),
        fault="F11",
        harm="Every step is begun and ends with an error, for everybody, because of one request.",
        patch=Patch(
            _SCHEDULER,
            "        self.cache.check_request(request)\n        if request",
            "        if request",
        ),
    ),
    Mutant(
        name="priority_that_cannot_be_compared_is_taken",
        clauses=("SCHED-REFUSE-1",),
        fault="F11",
        harm="The queue cannot be sorted any more as soon as a second request arrives.",
        patch=Patch(
            _SCHEDULER,
            '        check_index("priority", priority)\n',
            "",
        ),
    ),
    Mutant(
        name="two_states_are_enough",
        clauses=("SCHED-REFUSE-1",),
        fault="F11",
        harm=("A request whose state has to move finds no block for it in a pool of the size that it was promised."),
        patch=Patch(
            _SCHEDULER,
            "            return 3\n",
            "            return 2\n",
        ),
    ),
)

_PREEMPT = (
    Mutant(
        name="highest_is_preempted_first",
        clauses=("SCHED-PREEMPT-1",),
        fault="F11",
        harm="The request that is nearly done is thrown out, and the newest one stays.",
        patch=Patch(
            _SCHEDULER,
            "return max((other for other in running if other.rank > job.rank)",
            "return min((other for other in running if other.rank > job.rank)",
        ),
    ),
    Mutant(
        name="lowest_is_preempted_for_itself",
        clauses=("SCHED-PREEMPT-1",),
        fault="F11",
        harm="With steps in flight a request throws its own work away again and again.",
        patch=Patch(
            _SCHEDULER,
            "if other.rank > job.rank)",
            "if other.rank >= job.rank)",
        ),
    ),
    Mutant(
        name="higher_ones_are_preempted_as_well",
        clauses=("SCHED-PREEMPT-1",),
        fault="F11",
        harm="Two requests throw each other out in turns.",
        patch=Patch(
            _SCHEDULER,
            "if other.rank > job.rank)",
            "if other.rank != job.rank)",
        ),
    ),
    Mutant(
        name="preempted_requests_are_forgotten",
        clauses=(
            "SCHED-RESUME-1",
            "SCHED-PREEMPT-1",
        ),
        fault="F04",
        harm="A request that was preempted never gets an answer.",
        patch=Patch(
            _SCHEDULER,
            "                schedule.preempted.append(name)\n",
            "                schedule.preempted.append(name)\n                del self.jobs[name]\n",
        ),
    ),
    Mutant(
        name="nobody_is_preempted",
        clauses=("SCHED-PREEMPT-1",),
        fault="F11",
        harm="Two requests that each lack a block wait for each other for ever.",
        patch=Patch(
            _SCHEDULER,
            "                lowest = self._lowest_below(job)\n",
            "                lowest = None\n",
        ),
    ),
    Mutant(
        name="preempted_request_forgets_what_it_said",
        clauses=("SCHED-RESUME-1",),
        fault="F01",
        harm="A request that was preempted while it decoded repeats itself when it goes on.",
        patch=Patch(
            _SCHEDULER,
            "                schedule.preempted.append(name)\n",
            "                schedule.preempted.append(name)\n"
            "                self.jobs[name].request.truncate(self.jobs[name].request.num_prompt_tokens)\n",
        ),
    ),
    Mutant(
        name="waiting_is_no_choice",
        clauses=("SCHED-PENDING-1",),
        fault="F10",
        harm="Ten requests with one prompt arrive together, and each computes it for itself.",
        patch=Patch(
            _POLICIES,
            "return self is Pending.WAIT and match.pending > match.hit",
            "return self is None and match.pending > match.hit",
        ),
    ),
    Mutant(
        name="everybody_waits_for_what_is_reserved",
        clauses=("SCHED-PENDING-1",),
        fault="F11",
        harm="Requests wait for others though they were told not to.",
        patch=Patch(
            _POLICIES,
            "return self is Pending.WAIT and match.pending > match.hit",
            "return match.pending > match.hit",
        ),
    ),
    Mutant(
        name="failed_requests_are_forgotten",
        clauses=("SCHED-FAIL-1",),
        fault="F04",
        harm="A forward pass fails, and the requests in it never get an answer.",
        patch=Patch(
            _SCHEDULER,
            "        return self.cache.fail(step)\n",
            "        affected = self.cache.fail(step)\n"
            "        for name in affected:\n            del self.jobs[name]\n        return affected\n",
        ),
    ),
    Mutant(
        name="failed_step_is_committed",
        clauses=("SCHED-FAIL-1",),
        fault="F02",
        harm="Others are served what a failed forward pass was to compute.",
        patch=Patch(
            _SCHEDULER,
            "        return self.cache.fail(step)\n",
            "        self.cache.commit(step)\n        return []\n",
        ),
    ),
)

MUTANTS = (
    *_SCHEDULE,
    *_PREEMPT,
)
