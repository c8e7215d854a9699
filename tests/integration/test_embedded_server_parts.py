"""What the embedded server is built from: locks, process identity, places."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from agentcompass.cli import process_identity
from agentcompass.cli.embedded_server import agentcompass_home
from agentcompass.cli.server_process import find_binary
from agentcompass.cli.server_state import exclusive_lock


def idle_process(*, inherit: tuple[int, ...] = ()) -> subprocess.Popen[bytes]:
    """A process that ends when its input is closed, by `communicate()`."""
    return subprocess.Popen(
        [sys.executable, "-c", "input()"], stdin=subprocess.PIPE, stderr=subprocess.DEVNULL, pass_fds=inherit
    )


async def test_child_keeps_an_inherited_lock(tmp_path: Path) -> None:
    """What protects the database: the lock lives as long as the process that inherited it."""
    path = tmp_path / "lock"
    async with exclusive_lock(path, wait_seconds=0) as descriptor:
        child = idle_process(inherit=(descriptor,))
    try:
        with pytest.raises(TimeoutError):
            async with exclusive_lock(path, wait_seconds=0):
                pass
    finally:
        child.communicate()
    async with exclusive_lock(path, wait_seconds=0):
        pass


@pytest.mark.parametrize("look", [process_identity._marker_from_proc, process_identity._marker_from_ps])
def test_marker_tells_processes_apart(look: object) -> None:
    assert callable(look)
    if look is process_identity._marker_from_proc and not Path("/proc/self/stat").exists():
        pytest.skip("no /proc on this system")
    child = idle_process()
    marker = look(child.pid)
    assert marker is not None and look(child.pid) == marker
    child.communicate()
    assert look(child.pid) is None


def test_home_is_absolute_and_has_a_default() -> None:
    assert agentcompass_home({}) == Path.home() / ".agentcompass"
    assert agentcompass_home({"AGENTCOMPASS_HOME": "here"}) == Path.cwd() / "here"


def test_binary_comes_from_the_package() -> None:
    answer = subprocess.run([find_binary({}), "--version"], capture_output=True, text=True, check=True)
    assert "Server" in answer.stdout
