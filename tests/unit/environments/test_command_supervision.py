"""The script that runs one command in a sandbox, by the shells of this machine."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from agentcompass.plugins.environments.shared.scripts import SHARED, lines_of

TRIES = 60
HARMLESS = "end_members() { :; }\n"
"""Outside of a sandbox nothing may be ended; that it would be is seen by a file."""


def run_once(shell: list[str], home: Path, name: str) -> None:
    """Run a command that leaves a process behind, hang up after its report, and wait until nobody listens."""
    variables = {
        **os.environ,
        "AC_RUN": lines_of(SHARED, "common") + HARMLESS + lines_of(SHARED, "run"),
        "AC_KIND": "exec",
        "AC_CWD": str(home),
        "AC_LIMIT": "100000",
        "AC_KEPT": "1000",
        "AC_TENTHS": "0",
        "AC_COMMAND": "sleep 0 &",
        "AC_INPUT": "",
        "AC_USER": "0",
        "AC_HOME": str(home),
        "AGENTCOMPASS_COMMAND": name,
    }
    with subprocess.Popen(
        [*shell, "-c", 'eval "$AC_RUN"', "run", name],
        env=variables,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as run:
        assert run.stdin is not None and run.stdout is not None and run.stderr is not None
        assert run.stdout.readline() == b"report 0 0 0 0 0\n"
        run.stdin.close()
        run.stderr.read()  # its end is that of the helper


@pytest.mark.parametrize("shell", [["sh"], ["busybox", "sh"], ["bash"]], ids=" ".join)
def test_what_a_command_leaves_in_the_background_is_not_ended_after_its_report(
    shell: list[str], tmp_path: Path
) -> None:
    """A helper that its signal comes too early for would do that; it showed in one of ten tries."""
    if shutil.which(shell[0]) is None:
        pytest.skip(f"no {shell[0]} here")
    for folder in ("x", "p"):
        (tmp_path / folder).mkdir()
    for number in range(TRIES):
        run_once(shell, tmp_path, f"t-{number}")
    assert len(list((tmp_path / "x").glob("*.leader"))) == TRIES
    assert list((tmp_path / "x").glob("*.ended")) == []
