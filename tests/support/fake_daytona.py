"""The stand-in of Daytona for the tests: one for all, in a process of its own that ends with this one."""

from __future__ import annotations

import functools
import importlib.util
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from fake_machines import require, started

KEY = "fake-daytona-key"
KEY_VARIABLE = "FAKE_DAYTONA_API_KEY"
_PROGRAM = Path(__file__).parents[1] / "fakes" / "daytona"


@dataclass(frozen=True)
class FakeDaytona:
    """A running stand-in."""

    url: str

    def fail(self, **faults: Any) -> None:
        """Have something go wrong; see ``faults.py``."""
        httpx.put(f"{self._origin}/faults", json=faults).raise_for_status()

    def seen(self) -> dict[str, Any]:
        """``sandboxes``, what was ``asked`` for each, and all ``requests``."""
        found: dict[str, Any] = httpx.get(f"{self._origin}/seen").json()
        return found

    @property
    def _origin(self) -> str:
        return self.url.removesuffix("/api")


def require_fake_daytona() -> FakeDaytona:
    """The stand-in; where it cannot run, a test fails in CI and is skipped elsewhere."""
    found = require(_started())
    os.environ[KEY_VARIABLE] = KEY
    return found


@functools.cache
def _started() -> FakeDaytona | str:
    """The stand-in of this process, or why there is none."""
    if importlib.util.find_spec("daytona_api_client") is None:
        return "Daytona's SDK is not installed: pip install -e '.[daytona]'"
    found = started("Daytona", _PROGRAM)
    return found if isinstance(found, str) else FakeDaytona(found["url"])
