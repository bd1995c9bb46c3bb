"""States and traces in a terminal."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console
from rich.table import Table

from kvproof.conformance.arguments import key_of
from kvproof.conformance.findings import Violation
from kvproof.conformance.operations import Operation, describe
from kvproof.conformance.terminal import say
from kvproof.conformance.world import World
from kvproof.reference.observation import EntryState
from kvproof.spec.vocabulary import NULL_BLOCK, Key


def show_violation(console: Console, violation: Violation) -> None:
    """The reason, the trace, the states before and after its last operation."""
    console.print(f"[bold red]Violation:[/] after {len(violation.trace)} operations")
    say(console, violation.reason)
    console.print()
    show_trace(console, violation.trace)
    console.print()
    console.print(state_table(violation.before, "before the last operation"))
    console.print(state_table(violation.after, "after it"))


def show_trace(console: Console, trace: Iterable[Operation]) -> None:
    """One operation a line."""
    for number, operation in enumerate(trace, 1):
        say(console, f"{number:3}  {describe(operation)}")


def state_table(world: World, title: str) -> Table:
    """The blocks of a world as they were last observed; free ones are numbered in the order of the queue.

    "in +2" says that something waits for the second commit from now.
    """
    steps = world.state.steps.open
    table = Table(title=title + (f", {steps} steps open" if steps else ""), title_justify="left")
    for heading in ("block", "refs", "held by", "free", "slot", "keys", "holds"):
        table.add_column(heading)
    names = _key_names(world)
    queue = world.state.free_queue
    for block_id, block in enumerate(world.state.blocks):
        if block_id == NULL_BLOCK:
            continue
        content = world.ghost.content(block_id)
        waits = dict(block.attached)
        holders = [
            _holder(name, name == block.writer, served is not None, waits.get(name, 0))
            for name, served in block.holders
        ]
        table.add_row(
            str(block_id),
            str(block.ref_cnt),
            ", ".join(holders),
            str(queue.index(block_id) + 1) if block_id in queue else "",
            "" if block.slot is None else f"{block.slot}@g{block.group}",
            ", ".join(names.get(entry.key, entry.key.hex()[:8]) + _status(entry) for entry in block.entries),
            "" if content is None else " ".join(map(str, content.prefix.spelled)),
        )
    return table


def _holder(name: str, writes: bool, reads: bool, ahead: int) -> str:
    return name + " writes" * writes + " reads" * reads + _until(ahead)


def _status(entry: EntryState) -> str:
    return _until(entry.ahead) + f" reserved by {entry.owner}" * (entry.owner is not None)


def _until(ahead: int) -> str:
    """How many commits have to come first."""
    return f" in +{ahead}" if ahead else ""


def _key_names(world: World) -> dict[Key, str]:
    """A name for each key that a request has, by the first request that has it."""
    names: dict[Key, str] = {}
    h = world.config.hash_block_size
    for name, request in world.requests.items():
        for group in range(len(world.config.groups)):
            for position in range(h, request.hashed_length + 1, h):
                key = key_of(request, group, position)
                assert key is not None, "every position up to the hashed length has a key"
                names.setdefault(key, f"{name}[0:{position}]@g{group}")
    return names
