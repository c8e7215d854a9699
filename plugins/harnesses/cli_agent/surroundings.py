"""Where an agent finds its task and its model: directories, variables, files."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from ....contracts.environment import EnvironmentSession
from ....contracts.errors import StageFailure
from ....contracts.issues import IssueCode, IssuePhase
from ....contracts.request import ModelProtocol, ModelSpec
from ....contracts.task import McpServer, Message, PreparedTask
from ...models.endpoint import base_url_of, endpoint_url
from .description import AgentDescription, filled_in
from .mcp import servers_text

NO_KEY = "no-key"
"""For endpoints without one: many agents refuse to start without any."""
_SUFFIXES = {
    ModelProtocol.OPENAI_CHAT: "/chat/completions",
    ModelProtocol.OPENAI_RESPONSES: "/responses",
    ModelProtocol.ANTHROPIC: "/messages",
}


@dataclass(frozen=True)
class Directories:
    """Inside the environment, absolute."""

    install: str
    run: str
    """Prompt, configuration and trajectory of this execution."""
    work: str

    @property
    def prompt_file(self) -> str:
        """The task."""
        return f"{self.run}/prompt.txt"


async def find_directories(
    env: EnvironmentSession, install_dir: str | None, execution: str, workspace: str | None
) -> Directories:
    """Below the home directory of the environment's user. Raises ``StageFailure`` without one."""
    found = await env.exec('printf %s "$HOME"')
    home = found.stdout.text.strip()
    if not found.ok or not home.startswith("/"):
        message = f"the environment's user has no home directory: {home or found.stderr.text[:200]}"
        raise StageFailure.fatal(IssuePhase.SETUP, IssueCode.ENVIRONMENT_FAILED, message)
    base = f"{home.rstrip('/')}/.agentcompass"
    return Directories(install_dir or f"{base}/agent", f"{base}/run-{execution}", workspace or env.workdir)


@dataclass(frozen=True)
class Surroundings:
    """What the description's placeholders stand for in one execution."""

    description: AgentDescription
    protocol: ModelProtocol
    directories: Directories
    values: dict[str, str]
    """With the key: never stored, never shown."""
    servers: Sequence[McpServer] = ()
    skills_dir: str = ""

    def __repr__(self) -> str:
        return f"Surroundings({self.description.id!r})"

    def variables(self, version: str, more: dict[str, str]) -> dict[str, str]:
        """All variables of the agent."""
        described = {**self.description.variables, **self.description.protocols[self.protocol]}
        return {
            "AGENT_DIR": self.directories.install,
            "AGENT_RUN_DIR": self.directories.run,
            "AGENT_PROMPT_FILE": self.directories.prompt_file,
            "AGENT_MODEL": self.values["model"],
            "AGENT_BASE_URL": self.values["base_url"],
            "AGENT_VERSION": version,
            "AGENT_MCP_SERVERS": str(len(self.servers) or ""),
            "AGENT_SKILLS_DIR": self.skills_dir,
            **{name: filled_in(text, self.values) for name, text in described.items()},
            **more,
        }

    async def write_files(self, env: EnvironmentSession) -> None:
        """The prompt and the agent's configuration; writing them twice changes nothing."""
        await env.write(self.directories.prompt_file, self.values["prompt"].encode("utf-8", "replace"))
        escaped = {name: json.dumps(value)[1:-1] for name, value in self.values.items() if name != "api_key"}
        if self.description.mcp is not None:
            escaped["mcp_servers"] = servers_text(self.description.mcp, self.servers)
        for file in self.description.files:
            content = filled_in(file.content, escaped)
            await env.write(f"{self.directories.run}/{file.path}", content.encode())


def surroundings_of(
    description: AgentDescription,
    protocol: ModelProtocol,
    directories: Directories,
    model: ModelSpec,
    api_key: str,
    prompt: str,
    *,
    servers: Sequence[McpServer] = (),
    skills_dir: str = "",
) -> Surroundings:
    """Put together what the agent is told."""
    url = str(endpoint_url(base_url_of(model, protocol), protocol))
    base = url.removesuffix(_SUFFIXES[protocol])
    values = {
        "model": model.id,
        "base_url": base,
        "root_url": base.removesuffix("/v1"),
        "api_key": api_key or NO_KEY,
        "prompt": prompt,
        "prompt_file": directories.prompt_file,
        "agent_dir": directories.install,
        "run_dir": directories.run,
        "workdir": directories.work,
    }
    return Surroundings(description, protocol, directories, values, servers, skills_dir)


def prompt_of(prepared: PreparedTask) -> str:
    """The task as one text. Raises ``StageFailure`` for what cannot be told so."""
    task = prepared.input
    if task.media or task.tools:
        raise _invalid("brings media or tools, which a command-line agent cannot be given")
    parts = [task.system_prompt or ""] if not task.messages else []
    parts += [_text(message) for message in task.messages] or [task.prompt]
    if task.files:
        parts.append(
            "\n".join(["These files belong to the task:", *(f"- {file.path}" for file in task.files)])
        )
    if prepared.output.files:
        wanted = [f"- {file.path} {file.description}".rstrip() for file in prepared.output.files]
        parts.append("\n".join(["Leave these files:", *wanted]))
    text = "\n\n".join(part for part in parts if part)
    if not text.strip():
        raise _invalid("has neither messages nor a prompt")
    return text


def _text(message: Message) -> str:
    if isinstance(message.content, str):
        return message.content
    texts = [part.get("text") for part in message.content]
    if not all(isinstance(text, str) for text in texts):
        raise _invalid("has a message that is not text, which a command-line agent cannot be given")
    return "\n".join(str(text) for text in texts)


def _invalid(what: str) -> StageFailure:
    return StageFailure.fatal(IssuePhase.SETUP, IssueCode.TASK_INPUT_INVALID, f"the task {what}")
