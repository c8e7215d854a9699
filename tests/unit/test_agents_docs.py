"""What ``docs/agents.md`` shows is accepted."""

from __future__ import annotations

import re
from pathlib import Path

import agentcompass
from agentcompass.plugins.benchmarks.terminal_tasks import TerminalTask
from agentcompass.plugins.harnesses.cli_agent import CliAgentParams, load_description, shipped_agents
from agentcompass.plugins.harnesses.terminal_agent import TerminalAgentParams
from agentcompass.plugins.model_proxy import ModelProxyParams
from agentcompass.plugins.models.script_file import Conversation, read_script

PAGE = (Path(agentcompass.__file__).parent / "docs" / "agents.md").read_text(encoding="utf-8")


def examples(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


def test_the_description_is_accepted(tmp_path: Path) -> None:
    [example] = examples("yaml")
    path = tmp_path / "my-agent.yaml"
    path.write_text(example, encoding="utf-8")
    assert load_description(None, str(path)).id == "my-agent"


def test_the_task_and_the_script_are_accepted(tmp_path: Path) -> None:
    task, script = examples("json")
    assert TerminalTask.model_validate_json(task).id == "greeting"
    path = tmp_path / "answers.jsonl"
    path.write_text(script, encoding="utf-8")
    assert len(read_script(path).answers_for(Conversation("greeting", 1))) == 2
    assert len(read_script(path).answers_for(Conversation("other", 1))) == 1


def test_every_parameter_and_every_shipped_agent_is_named() -> None:
    params = [*TerminalAgentParams.model_fields, *CliAgentParams.model_fields, *ModelProxyParams.model_fields]
    assert [
        name for name in [*params, *shipped_agents()] if f"`{name}`" not in PAGE and f'"{name}"' not in PAGE
    ] == []
