"""Every command line that the documentation tells people to type exists, with its flags."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer

import agentcompass
from agentcompass.cli.main import app
from agentcompass.cli.server_process import find_binary

ROOT = Path(agentcompass.__file__).resolve().parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
_FENCE = re.compile(r"^ *```[a-z]*\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
_INLINE = re.compile(r"`([^`]+)`")
_FLAG = re.compile(r"(?<![\w'-])--[a-z][a-z-]*")
_PASSED_ON = re.compile(r"'[^']*'|\"[^\"]*\"")
"""What is quoted is a value."""


def typed(page: Path, program: str) -> Iterator[str]:
    """The command lines of a program, continued lines joined."""
    text = page.read_text(encoding="utf-8")
    blocks = "\n".join(_FENCE.findall(text)).replace("\\\n", " ")
    found = [*blocks.splitlines(), *_INLINE.findall(_FENCE.sub("", text))]
    for line in found:
        begin = re.match(rf"(?:\$ )?(?:[A-Z_]+=\S+ )*{program} +(?=[a-z])", line.strip())
        if begin:
            yield re.split(r" [|>&#]|;", line.strip()[begin.end() :])[0]


@cache
def commands() -> Any:
    """The group of all; typer brings a click of its own."""
    return typer.main.get_command(app)


def unknown_in(line: str) -> str:
    """What of a command line there is not; empty when all is there."""
    command, words = commands(), _PASSED_ON.sub("VALUE", line).split()
    while words and getattr(command, "commands", None):
        word = words.pop(0)
        following = command.commands.get(word)
        if following is None:
            return "" if word.startswith("-") or not word.isalpha() else f"command {word}"
        command = following
    known = {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}
    return ", ".join(sorted(set(_FLAG.findall(" ".join(words))) - known - {"--help"}))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_of_ours_exist_with_their_flags(page: Path) -> None:
    wrong = {line: problem for line in typed(page, "agentcompass") if (problem := unknown_in(line))}
    assert wrong == {}


def test_commands_of_temporal_exist_with_their_flags() -> None:
    lines = [line for page in PAGES for line in typed(page, "temporal")]
    assert len(lines) >= 6
    common = help_of("options")
    for line in lines:
        words = [word for word in _PASSED_ON.sub("VALUE", line).split() if re.fullmatch(r"[a-z-]+", word)]
        names = [word for word in words if not word.startswith("-")]
        told = help_of(*names[:3], "--help")
        assert "Usage:" in told, line
        missing = [flag for flag in _FLAG.findall(_PASSED_ON.sub("VALUE", line)) if flag not in told + common]
        assert missing == [], line


def help_of(*arguments: str) -> str:
    done = subprocess.run([str(find_binary()), *arguments], capture_output=True, text=True, check=False)
    return done.stdout
