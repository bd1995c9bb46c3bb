"""Makes the trace of a divergence short: fewer operations, smaller ones, a smaller pool, plain names.

Each candidate is run again beside the reference, and taken if the same operation may break the same clauses. What a
candidate makes undefined is left out, what it makes illegal has to be refused: so every candidate is a valid trace.
Nothing is random, and the trace that is returned was run last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import msgspec

from kvproof.conformance.backends.interface import Backend, Capabilities
from kvproof.conformance.certification.attribution import clauses_of
from kvproof.conformance.certification.lockstep import Divergence, Lockstep
from kvproof.conformance.operations import AddRequest, Allocate, Append, KeyRef, Operation, name_of
from kvproof.spec.vocabulary import PoolConfig

MOST_RUNS = 600
"""Candidates that are tried at most."""


def shrink(backend: Backend, capabilities: Capabilities, found: Divergence) -> Divergence:
    """The shortest trace that was found to break the same clause by the same operation."""
    return _Shrinker(backend, capabilities, found).run()


class _Shrinker:
    def __init__(self, backend: Backend, capabilities: Capabilities, found: Divergence) -> None:
        self._backend, self._capabilities = backend, capabilities
        self._wanted = _signature(found)
        self._runs_left = MOST_RUNS
        self.best = found

    def run(self) -> Divergence:
        """Try everything until nothing gets smaller."""
        size = None
        while size != (size := _size(self.best)):
            self._leave_out()
            self._try_each(_smaller_pools)
            self._try_each(_smaller_operations)
        self._try(self.best.config, _with_plain_names(self.best.operations))
        return self.best

    def _leave_out(self) -> None:
        """Leave out runs of operations, long ones first, from the end."""
        length = len(self.best.operations) // 2
        while length:
            end = len(self.best.operations)
            while end > 0:
                operations = self.best.operations
                begin = max(0, end - length)
                self._try(self.best.config, (*operations[:begin], *operations[end:]))
                end = min(begin, len(self.best.operations))
            length //= 2

    def _try_each(self, candidates: Callable[[Divergence], Iterator[tuple[PoolConfig, Sequence[Operation]]]]) -> None:
        """Go on from each candidate that is taken."""
        taken = True
        while taken:
            taken = any(self._try(config, operations) for config, operations in candidates(self.best))

    def _try(self, config: PoolConfig, operations: Sequence[Operation]) -> bool:
        if self._runs_left == 0:
            return False
        self._runs_left -= 1
        lockstep = Lockstep(self._backend, self._capabilities, config, self.best.watched)
        lockstep.run(operations)
        if lockstep.divergence is None or _signature(lockstep.divergence) != self._wanted:
            return False
        self.best = lockstep.divergence
        return True


def _signature(found: Divergence) -> tuple[tuple[str, ...], str]:
    return clauses_of(found), name_of(found.operations[-1])


def _size(found: Divergence) -> tuple[int, int, int]:
    return len(found.operations), len(msgspec.json.encode(found.operations)), found.config.num_blocks


def _smaller_pools(found: Divergence) -> Iterator[tuple[PoolConfig, Sequence[Operation]]]:
    config = found.config
    for blocks in (2, config.num_blocks // 2, config.num_blocks - 1):
        if 2 <= blocks < config.num_blocks:
            yield replace(config, num_blocks=blocks), found.operations
    if len(config.groups) > 1:
        yield replace(config, groups=config.groups[:-1]), found.operations


def _smaller_operations(found: Divergence) -> Iterator[tuple[PoolConfig, Sequence[Operation]]]:
    for number, operation in enumerate(found.operations):
        for smaller in _smaller(operation):
            yield found.config, (*found.operations[:number], smaller, *found.operations[number + 1 :])


def _smaller(operation: Operation) -> Iterator[Operation]:
    """The same operation with less in it."""
    for field in operation.__struct_fields__:
        value = getattr(operation, field)
        if isinstance(value, tuple) and len(value) > 1 and field != "tokens":
            yield from (
                msgspec.structs.replace(operation, **{field: (*value[:i], *value[i + 1 :])}) for i in range(len(value))
            )
        elif field in {"extra_keys", "mask", "replace"} and value:
            yield msgspec.structs.replace(operation, **{field: _default(operation, field)})
    match operation:
        case AddRequest(tokens=tokens) | Append(tokens=tokens) if isinstance(tokens, tuple) and len(tokens) > 1:
            yield from (
                msgspec.structs.replace(operation, tokens=tokens[:n]) for n in (len(tokens) // 2, len(tokens) - 1)
            )
        case Allocate(n=n) if isinstance(n, int) and n > 1:
            yield from (msgspec.structs.replace(operation, n=fewer) for fewer in (1, n - 1))


def _default(operation: Operation, field: str) -> object:
    return next(each.default for each in msgspec.structs.fields(operation) if each.name == field)


def _with_plain_names(operations: Sequence[Operation]) -> list[Operation]:
    """Requests are called r1, r2, ... as they come, and tokens are small numbers."""
    names: dict[str, str] = {}
    tokens: dict[int, int] = {}
    renamed = []
    for operation in operations:
        if isinstance(operation, AddRequest) and isinstance(operation.request, str):
            names.setdefault(operation.request, f"r{len(names) + 1}")
        if isinstance(operation, AddRequest | Append) and isinstance(operation.tokens, tuple):
            plain = tuple(tokens.setdefault(token, len(tokens)) for token in operation.tokens)
            operation = msgspec.structs.replace(operation, tokens=plain)
        renamed.append(_renamed(operation, names))
    return renamed


def _renamed(value: Operation, names: dict[str, str]) -> Operation:
    """The operation with its requests called otherwise, wherever a name stands."""
    changes: dict[str, object] = {}
    for field in value.__struct_fields__:
        changes[field] = _with_names(getattr(value, field), names)
    return msgspec.structs.replace(value, **changes)


def _with_names(value: object, names: dict[str, str]) -> object:
    match value:
        case str():
            return names.get(value, value)
        case tuple():
            return tuple(_with_names(item, names) for item in value)
        case KeyRef(request=name):
            return msgspec.structs.replace(value, request=_with_names(name, names))
    return value
