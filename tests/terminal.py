"""What a command printed, as tests compare it."""

from __future__ import annotations

import re


def squeezed(text: str) -> str:
    """The words alone, without the terminal's boxes, colours and line breaks."""
    return " ".join(re.sub(r"\x1b\[[0-9;]*m|[━┃┏┓┗┛┡┩┳┻╇╈│╭╮╰╯─├┤┼┴└┘]", " ", text).split())
