"""A task's MCP servers and skills, as a command-line agent is told of them."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from agentcompass.contracts import ConfigurationError, McpServer, ModelSpec, TaskSpec
from agentcompass.contracts.request import ModelProtocol
from agentcompass.plugins.harnesses.cli_agent import CliAgent, CliAgentParams, load_description
from agentcompass.plugins.harnesses.cli_agent.surroundings import Directories, surroundings_of

SERVERS = [
    McpServer(name="local", transport="stdio", command="/opt/server", args=["--say", 'a "word"', "é\x7f"]),
    McpServer(name="remote", transport="streamable-http", url="http://mcp:8000/mcp"),
]
EVENTS = McpServer(name="events", transport="sse", url="http://mcp:8000/sse")


class Files:
    """Where an environment's files go."""

    def __init__(self) -> None:
        self.written: dict[str, str] = {}

    async def write(self, path: str, data: bytes, *, mode: int = 0o644) -> None:
        self.written[path.removeprefix("/run/")] = data.decode()


async def written_by(agent: str, servers: list[McpServer]) -> tuple[dict[str, str], dict[str, str]]:
    """The files and variables of an agent."""
    description = load_description(agent, None)
    protocol: ModelProtocol = next(iter(description.protocols))
    model = ModelSpec(id="m", base_url="http://model/v1")
    surroundings = surroundings_of(
        description, protocol, Directories("/install", "/run", "/work"), model, "key", "Do {mcp_servers}.",
        servers=servers, skills_dir="/skills",
    )  # fmt: skip
    files = Files()
    await surroundings.write_files(files)  # type: ignore[arg-type]  # only its write is used
    return files.written, surroundings.variables("", {})


@pytest.mark.parametrize(
    ("agent", "file", "key", "expected"),
    [
        (
            "claude-code",
            "mcp.json",
            "mcpServers",
            {
                "local": {"type": "stdio", "command": "/opt/server", "args": ["--say", 'a "word"', "é\x7f"]},
                "remote": {"type": "http", "url": "http://mcp:8000/mcp"},
                "events": {"type": "sse", "url": "http://mcp:8000/sse"},
            },
        ),
        (
            "qwen-code",
            "settings.json",
            "mcpServers",
            {
                "local": {"command": "/opt/server", "args": ["--say", 'a "word"', "é\x7f"]},
                "remote": {"httpUrl": "http://mcp:8000/mcp"},
                "events": {"url": "http://mcp:8000/sse"},
            },
        ),
        (
            "opencode",
            "opencode.json",
            "mcp",
            {
                "local": {
                    "type": "local",
                    "command": ["/opt/server", "--say", 'a "word"', "é\x7f"],
                    "enabled": True,
                },
                "remote": {"type": "remote", "url": "http://mcp:8000/mcp", "enabled": True},
                "events": {"type": "remote", "url": "http://mcp:8000/sse", "enabled": True},
            },
        ),
    ],
)
async def test_each_agent_is_told_in_its_own_words(
    agent: str, file: str, key: str, expected: dict[str, Any]
) -> None:
    files, variables = await written_by(agent, [*SERVERS, EVENTS])
    assert json.loads(files[file])[key] == expected
    assert (variables["AGENT_MCP_SERVERS"], variables["AGENT_SKILLS_DIR"]) == ("3", "/skills")
    assert files["prompt.txt"] == "Do {mcp_servers}."


async def test_codex_is_told_in_toml() -> None:
    files, _ = await written_by("codex", SERVERS)
    assert tomllib.loads(files["codex/config.toml"]) == {
        "mcp_servers": {
            "local": {"command": "/opt/server", "args": ["--say", 'a "word"', "é\x7f"]},
            "remote": {"url": "http://mcp:8000/mcp"},
        }
    }


@pytest.mark.parametrize("agent", ["claude-code", "codex", "qwen-code", "opencode"])
async def test_files_are_valid_without_servers_too(agent: str) -> None:
    files, variables = await written_by(agent, [])
    assert variables["AGENT_MCP_SERVERS"] == ""
    for name, content in files.items():
        if name.endswith(".json"):
            json.loads(content)
        elif name.endswith(".toml"):
            assert tomllib.loads(content) == {}


@pytest.mark.parametrize(
    ("agent", "servers", "problem"),
    [
        ("claude-code", [*SERVERS, EVENTS], None),
        ("codex", SERVERS, None),
        ("codex", [EVENTS], "brings MCP server 'events', and agent 'codex' does not speak sse"),
        ("mini-swe-agent", SERVERS, "the description of agent 'mini-swe-agent' does not say how to use them"),
        ("mini-swe-agent", [], None),
    ],
)
def test_an_agent_that_cannot_use_them_refuses_the_task(
    agent: str, servers: list[McpServer], problem: str | None
) -> None:
    found = CliAgent(CliAgentParams(agent=agent)).task_problem(TaskSpec(task_id="t", mcp_servers=servers))
    assert found is None if problem is None else found is not None and problem in found


def test_a_description_says_where_servers_go_and_how(tmp_path: Path) -> None:
    path = tmp_path / "agent.yaml"
    path.write_text(
        "id: a\nprotocols: {openai-chat: {}}\ninstall: {check: 'true', command: 'true'}\nrun: 'true'\n"
        "files: [{path: x.json, content: '{mcp_servers}'}]\n"
    )
    with pytest.raises(ConfigurationError, match="belong together"):
        load_description(None, str(path))
