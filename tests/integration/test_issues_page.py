"""The examples of ``docs/issues.md`` are run as they stand there, and say what the page says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import agentcompass

PAGE = Path(agentcompass.__file__).resolve().parent / "docs" / "issues.md"
_EXAMPLE = re.compile(r"^```sh\n(.*?)^```\n+```text\n(.*?)^```", re.DOTALL | re.MULTILINE)
EXAMPLES = _EXAMPLE.findall(PAGE.read_text(encoding="utf-8"))


def test_each_of_the_three_ideas_has_an_example() -> None:
    assert len(EXAMPLES) == 3


@pytest.mark.parametrize(
    ("commands", "told"), EXAMPLES, ids=["an invalid score", "attempts", "a retry"][: len(EXAMPLES)]
)
def test_an_example_says_what_the_page_says(
    embedded_home: Path, tmp_path: Path, commands: str, told: str
) -> None:
    program = tmp_path / "bin" / "agentcompass"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m agentcompass.cli.main "$@"\n')
    program.chmod(0o755)
    env = {
        **os.environ,
        "AGENTCOMPASS_HOME": str(embedded_home),
        "PATH": f"{program.parent}{os.pathsep}{os.environ['PATH']}",
    }
    commands = commands.replace("/tmp/agentcompass-flaky", str(tmp_path / "flaky"))
    ended = subprocess.run(
        ["sh", "-eu", "-c", commands],
        cwd=tmp_path,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=110,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout
    for line in told.splitlines():
        assert line in ended.stdout
