"""Starting the stand-ins of sandbox providers, which make machines of process tables."""

from __future__ import annotations

import atexit
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, TypeVar

import pytest

T = TypeVar("T")
_TRIAL = ["unshare", "--pid", "--mount", "--fork", "--mount-proc", "true"]


def require(found: T | str) -> T:
    """A stand-in, or the end of the test: in CI it fails, elsewhere it is skipped."""
    if isinstance(found, str):
        if os.environ.get("CI"):
            pytest.fail(found)
        pytest.skip(found)
    return found


def started(name: str, program: Path) -> dict[str, Any] | str:
    """What a new stand-in says of itself, or why there is none. It ends with this process."""
    trial = _TRIAL if os.geteuid() == 0 else ["unshare", "--user", "--map-root-user", *_TRIAL[1:]]
    if shutil.which("unshare") is None or subprocess.run(trial, capture_output=True, check=False).returncode:
        return f"the stand-in of {name} needs unshare and a kernel that lets it make process tables"
    folder = tempfile.mkdtemp(prefix=f"{name.lower()}-")
    # It serves all tests of this process, so it must not count among the processes of one home.
    env = {name: value for name, value in os.environ.items() if name != "AGENTCOMPASS_HOME"}
    process = subprocess.Popen(
        [sys.executable, str(program), folder],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=env,
    )
    atexit.register(_end, process, folder)
    assert process.stdout is not None
    found: dict[str, Any] = json.loads(process.stdout.readline())
    return found


def _end(process: subprocess.Popen[str], folder: str) -> None:
    process.communicate()
    shutil.rmtree(folder, ignore_errors=True)
