"""What operators read: commands that exist, metrics that are counted, an answer for each emergency."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import typer
from metric_names import used_names

import agentcompass
from agentcompass.cli.main import app

DOCS = Path(agentcompass.__file__).resolve().parent / "docs"
ANNOUNCED = {"end", "env", "logs"}
"""Commands that the runbook names and that come with other parts of this version."""
_COMMAND = re.compile(r"(?<![\w/-])agentcompass ([a-z][a-z-]*)((?: [^`\n|;]*)?)")
_FLAG = re.compile(r"--[a-z][a-z-]+")


def commands(page: str) -> list[tuple[str, str]]:
    """Names and arguments of all commands of ours in code on a page."""
    text = (DOCS / page).read_text(encoding="utf-8")
    code = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
    code += re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL))
    return [match for part in code for match in _COMMAND.findall(part)]


@pytest.mark.parametrize("page", ["operating.md", "deploying.md"])
def test_commands_exist_with_their_flags(page: str) -> None:
    group = typer.main.get_command(app)
    known = group.commands  # type: ignore[attr-defined]
    found = commands(page)
    assert len(found) > 2
    for name, arguments in found:
        if name not in known:
            assert name in ANNOUNCED, f"`agentcompass {name}` does not exist"
            continue
        command = known[name]
        flags = {flag for item in command.params for flag in (*item.opts, *item.secondary_opts)}
        if hasattr(command, "commands"):
            flags |= {flag for sub in command.commands.values() for item in sub.params for flag in item.opts}
        unknown = set(_FLAG.findall(arguments)) - flags
        assert not unknown, f"`agentcompass {name}{arguments}` has no {unknown}"


def test_there_is_an_answer_for_every_emergency() -> None:
    text = (DOCS / "operating.md").read_text(encoding="utf-8")
    wanted = [
        "Stuck attempt",
        "Wrong key",
        "Full disk",
        "Lost host",
        "Lost database",
        "Upgrade",
        "Runaway cost",
    ]
    assert re.findall(r"^### (.+)$", text, re.MULTILINE)[-7:] == wanted


def test_page_lists_every_metric_that_dashboards_use() -> None:
    text = (DOCS / "deploying.md").read_text(encoding="utf-8")
    own = {
        re.sub(r"_(bucket|count|sum)$", "", name) for name in used_names() if name.startswith("agentcompass")
    }
    assert {name for name in own if f"`{name}`" not in text} == set()
