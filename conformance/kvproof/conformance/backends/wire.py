"""What crosses the border between the suite and a backend: plain values that can be written as JSON.

Hashes are text. A backend that follows a named hash contract gives the digest in hexadecimal; one with hashes of its
own gives whatever names a prefix for it, and the suite learns the names by asking for each request's (`Hashes`).
"""

from __future__ import annotations

import msgspec

from kvproof.conformance.operations import Extra


class Wire(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """What all values share: nothing that is not understood is passed over."""


def without_hybrid(holder: msgspec.Struct) -> object:
    """A value with a `config`, made of plain values; hybrid settings that are not there are not mentioned."""
    fields: dict[str, dict[str, object]] = msgspec.to_builtins(holder)
    if fields["config"]["hybrid"] is None:
        del fields["config"]["hybrid"]
    return fields


class PrefixName(Wire, frozen=True):
    """The hash of a prefix and how many tokens it has."""

    hash: str
    position: int


class StoredEvent(Wire, frozen=True, tag_field="event", tag="stored"):
    """Keys of one run became resident (EVENT-STORED-*)."""

    group: int
    hashes: tuple[PrefixName, ...]
    parent: PrefixName | None
    tokens: tuple[int, ...]
    extra_keys: tuple[Extra, ...] = ()


class RemovedEvent(Wire, frozen=True, tag_field="event", tag="removed"):
    """One key is no longer resident (EVENT-REMOVED-*)."""

    group: int
    hash: str


class ClearedEvent(Wire, frozen=True, tag_field="event", tag="cleared"):
    """No key is resident any more (EVENT-CLEARED-1)."""


WireEvent = StoredEvent | RemovedEvent | ClearedEvent


def as_events(result: object) -> object:
    """What `take_events` answered as events, also where JSON brought it; as it is if it is no list of events."""
    try:
        return msgspec.convert(result, list[WireEvent])
    except msgspec.ValidationError:
        return result


class Entry(Wire, frozen=True):
    """A key of a block; `ahead` counts the commits until it is servable, `owner` reserved it if it is reserved."""

    group: int
    hash: str
    position: int
    ahead: int = 0
    owner: str | None = None


class Holders(Wire, frozen=True):
    """The blocks that have a key, first registered first."""

    group: int
    hash: str
    blocks: tuple[int, ...]


class Running(Wire, frozen=True):
    """A request that runs over all groups: its tables, how far it is, and its junction.

    `unsettled` has, for each chunk that is not committed, how many commits away its step is, and what is settled then;
    `scheduled` is how many commits away the step of its last chunk is.
    """

    request: str
    computed: int
    settled: int
    junction: int
    tables: tuple[tuple[int, ...], ...]
    unsettled: tuple[tuple[int, int], ...] = ()
    scheduled: int = 0


class Observation(Wire, frozen=True):
    """What a backend shows of its state; a part that it cannot show is left out. Lists are by block id, null first."""

    num_free: int | None = None
    free_queue: tuple[int, ...] | None = None
    """Free blocks, the next victim first."""
    ref_cnt: tuple[int, ...] | None = None
    holders: tuple[tuple[str, ...], ...] | None = None
    """The names of each block's holders, sorted."""
    writers: tuple[str | None, ...] | None = None
    slots: tuple[tuple[int, int] | None, ...] | None = None
    """Each block's group and slot, as its first registration set them."""
    keys: tuple[tuple[Entry, ...], ...] | None = None
    """Each block's keys in registration order."""
    index: tuple[Holders, ...] | None = None
    """Every cached key, sorted by group and hash."""
    running: tuple[Running, ...] | None = None
    """The requests that run, sorted by name; left out where the pool has no hybrid settings."""


PARTS = Observation.__struct_fields__
"""The parts of the state that a backend may show."""

IF_HYBRID = "running"
"""The part that is there only where the pool has hybrid settings."""


class Hit(Wire, frozen=True):
    """What `find` says of a key: the block that serves it; or the one that has it reserved, and its writer; and the one
    that would serve it if everything reserved were committed (STEP-LOOKUP-*).
    """

    block: int | None = None
    reserved: int | None = None
    writer: str | None = None
    pending: int | None = None


class Matched(Wire, frozen=True):
    """What `match` says of a request, in tokens (HIT-PURE-1)."""

    hit: int
    junction: int
    pending: int


class Admitted(Wire, frozen=True):
    """What `admit` began: the match that it found, and the tables with the first chunk."""

    hit: int
    junction: int
    pending: int
    tables: tuple[tuple[int, ...], ...]


class Answer(Wire, frozen=True):
    """What became of an operation: its result, or the name of the error that refused it, with a message for people."""

    result: object = None
    error: str | None = None
    message: str = ""


class Step(Wire, frozen=True):
    """An operation's answer; if it was asked to show more, the state afterwards, and the events drained after it."""

    answer: Answer
    seen: Observation | None = None
    events: tuple[WireEvent, ...] | None = None
