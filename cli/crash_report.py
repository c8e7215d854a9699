"""An unexpected error, kept in a file for a bug report instead of on the terminal."""

from __future__ import annotations

import os
import time
import traceback
from pathlib import Path

from .home import home_folder


def write_crash_report(error: BaseException) -> Path | None:
    """Write the traceback, secrets masked, below the AgentCompass home; ``None`` if that is impossible."""
    from ..activities.redaction import REDACTOR
    from ..contracts.secrets import is_sensitive_name

    for name, value in os.environ.items():
        if is_sensitive_name(name):
            REDACTOR.register(value)
    text = REDACTOR.text("".join(traceback.format_exception(error)))
    folder = home_folder() / "logs"
    file = folder / f"crash-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.log"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8", errors="backslashreplace")
    except OSError:  # a full disk must not hide the error itself
        return None
    return file
