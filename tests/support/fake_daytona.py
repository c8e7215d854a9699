"""The stand-in of Daytona for the tests: one for all, in a process of its own that ends with this one."""

from __future__ import annotations

import atexit
import functools
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

KEY = "fake-daytona-key"
KEY_VARIABLE = "FAKE_DAYTONA_API_KEY"
_PROGRAM = Path(__file__).parents[1] / "fakes" / "daytona"
_TRIAL = ["unshare", "--pid", "--mount", "--fork", "--mount-proc", "true"]


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
    found = _started()
    if isinstance(found, str):
        if os.environ.get("CI"):
            pytest.fail(found)
        pytest.skip(found)
    os.environ[KEY_VARIABLE] = KEY
    return found


@functools.cache
def _started() -> FakeDaytona | str:
    """The stand-in of this process, or why there is none."""
    if importlib.util.find_spec("daytona_api_client") is None:
        return "Daytona's SDK is not installed: pip install 'agentcompass[daytona]'"
    trial = _TRIAL if os.geteuid() == 0 else ["unshare", "--user", "--map-root-user", *_TRIAL[1:]]
    if shutil.which("unshare") is None or subprocess.run(trial, capture_output=True, check=False).returncode:
        return "the stand-in of Daytona needs unshare and a kernel that lets it make process tables"
    folder = tempfile.mkdtemp(prefix="daytona-")
    # It serves all tests of this process, so it must not count among the processes of one home.
    env = {name: value for name, value in os.environ.items() if name != "AGENTCOMPASS_HOME"}
    process = subprocess.Popen(
        [sys.executable, str(_PROGRAM), folder],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=env,
    )
    atexit.register(_end, process, folder)
    assert process.stdout is not None
    line = process.stdout.readline()
    return FakeDaytona(json.loads(line)["url"])


def _end(process: subprocess.Popen[str], folder: str) -> None:
    process.communicate()
    shutil.rmtree(folder, ignore_errors=True)
