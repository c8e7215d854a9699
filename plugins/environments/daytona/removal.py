"""Removing a sandbox. Blocks."""

from __future__ import annotations

import time

from .api import NOT_FOUND, DaytonaApi, DaytonaError
from .records import Facts

_FIRST_POLL_SECONDS, _LONGEST_POLL_SECONDS = 0.05, 1.0
_IN_BETWEEN = (400, 409)


def remove(api: DaytonaApi, sandbox: str, seconds: float) -> None:
    """Delete the sandbox of that id, and wait until it is gone. Raises ``OSError``, ``TimeoutError``."""
    deadline = time.monotonic() + seconds
    asked, pause = False, _FIRST_POLL_SECONDS
    while True:
        try:
            if not asked:
                api.call(lambda timeout: api.sandboxes.delete_sandbox(sandbox, _request_timeout=timeout))
                asked = True
            state = api.call(
                lambda timeout: Facts.of(api.sandboxes.get_sandbox(sandbox, _request_timeout=timeout)).state
            )
            if state == "destroyed":
                return
        except DaytonaError as error:
            if error.status == NOT_FOUND:
                return
            # While a sandbox changes from one state to another it cannot be deleted yet.
            if error.status not in _IN_BETWEEN:
                raise OSError(f"Daytona does not remove a sandbox: {error} ({error.status})") from error
        if time.monotonic() + pause > deadline:
            raise TimeoutError(f"Daytona has not removed the sandbox {sandbox} after {seconds:g} s")
        time.sleep(pause)
        pause = min(pause * 1.5, _LONGEST_POLL_SECONDS)
