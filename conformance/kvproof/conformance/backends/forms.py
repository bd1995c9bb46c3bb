"""Forms: what operations can say and some pools have no words for.

A backend that offers an operation takes all its forms, unless its capabilities say which ones it is without. What it
cannot be asked is left out, and stands in the certificate.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise

from kvproof.conformance.backends.interface import Capabilities
from kvproof.conformance.operations import AddRequest, CacheFullBlocks, CachePartialBlock, Extra, Operation

FOR_A_WHOLE_REQUEST = ("adapter", "salt")
"""Sources that an engine knows once for each request."""


def _full_with_replace(operation: Operation) -> bool:
    return isinstance(operation, CacheFullBlocks) and operation.replace is not False


def _partial_with_replace(operation: Operation) -> bool:
    return isinstance(operation, CachePartialBlock) and operation.replace is not False


def _extras(operation: Operation) -> list[Extra]:
    extras = operation.extra_keys if isinstance(operation, AddRequest) else ()
    return [extra for extra in extras if isinstance(extra, Extra)] if isinstance(extras, tuple | list) else []


def _embedding(operation: Operation) -> bool:
    return any(extra.source == "embedding" for extra in _extras(operation))


def _part_of_a_request(operation: Operation) -> bool:
    whole = (0, None)
    return any(e.source in FOR_A_WHOLE_REQUEST and (e.start, e.end) != whole for e in _extras(operation))


def _two_of_a_source(operation: Operation) -> bool:
    sources = [extra.source for extra in _extras(operation) if extra.source in FOR_A_WHOLE_REQUEST]
    return len(set(sources)) < len(sources)


def _endless_media(operation: Operation) -> bool:
    return any(extra.source == "media" and not isinstance(extra.end, int) for extra in _extras(operation))


def _overlapping_media(operation: Operation) -> bool:
    media = [(e.start, e.end) for e in _extras(operation) if e.source == "media" and isinstance(e.end, int)]
    places = sorted(place for place in media if isinstance(place[0], int))
    return any(left[1] > right[0] for left, right in pairwise(places))


def _empty_value(operation: Operation) -> bool:
    return any(extra.value == "" for extra in _extras(operation))


FORMS: Mapping[str, Callable[[Operation], bool]] = {
    "cache_full_blocks.replace": _full_with_replace,
    "cache_partial_block.replace": _partial_with_replace,
    "extra_keys.embedding": _embedding,
    "extra_keys.part_of_request": _part_of_a_request,
    "extra_keys.two_of_a_source": _two_of_a_source,
    "extra_keys.endless_media": _endless_media,
    "extra_keys.overlapping_media": _overlapping_media,
    "extra_keys.empty_value": _empty_value,
}
"""Each form by its name, and whether an operation has it: full or partial registration with `replace`; an embedding; an
adapter or a salt that covers a part of its request, or stands there twice; media without an end, or one over another;
an extra key whose value is the empty text.
"""


def unsayable(operation: Operation, capabilities: Capabilities) -> str:
    """The form of the operation that a backend with these claims is without; empty if it can be asked."""
    return next((form for form in capabilities.without if FORMS[form](operation)), "")
