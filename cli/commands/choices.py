"""Flags with a fixed set of values, where no configuration validates them."""

from __future__ import annotations

import difflib
from typing import Any, cast, get_args

from ...contracts.errors import UsageError
from ...contracts.request import LogLevel, ProgressMode


def progress_mode(text: str) -> ProgressMode:
    """``auto``, ``plain`` or ``none``. Raises ``UsageError``."""
    return cast(ProgressMode, one_of(text, get_args(ProgressMode), "--progress"))


def log_level_of(text: str) -> LogLevel:
    """A log level in any case. Raises ``UsageError``."""
    return cast(LogLevel, one_of(text.upper(), get_args(LogLevel), "--log-level"))


def one_of(text: str, valid: tuple[Any, ...], name: str) -> str:
    """``text`` when it is valid. Raises ``UsageError`` with the nearest valid value."""
    if text in valid:
        return text
    near = difflib.get_close_matches(text, valid, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}?" if near else f"valid: {', '.join(valid)}"
    raise UsageError(f"{name}: {text!r} is not valid; {hint}")
