"""Ends the code under test at a chosen event of the interpreter, as no memory or an interrupt would."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any


@contextmanager
def struck(number: int, event: str, error: BaseException, watched: Callable[[Path, str], bool]) -> Iterator[None]:
    """Raise the error instead of the `number`-th event, a "line" or an "opcode", in watched code.

    `watched` is asked with the file and the name of a function.
    """
    left = number

    def trace(frame: FrameType, what: str, _: object) -> Any:
        nonlocal left
        code: CodeType = frame.f_code
        if not watched(Path(code.co_filename), code.co_name):
            return None
        frame.f_trace_opcodes = event == "opcode"
        if what == event:
            left -= 1
            if left == 0:
                raise error
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(before)
