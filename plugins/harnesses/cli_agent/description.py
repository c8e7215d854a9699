"""What AgentCompass has to know of a command-line agent: a small YAML file.

Commands are shell scripts. Nothing is ever put into their text: they see the task and the model as
variables and files, so a prompt cannot become a command. Values of variables and contents of files may
name these in braces: ``{model}``, ``{base_url}`` (with its ``/v1``), ``{root_url}`` (without),
``{api_key}`` (variables only), ``{prompt}`` (files only), ``{prompt_file}``, ``{agent_dir}``,
``{run_dir}``, ``{workdir}``; files also ``{mcp_servers}``, where the description says in which form (``mcp``).
"""

from __future__ import annotations

import re
from enum import StrEnum
from importlib.resources import files as packaged
from pathlib import Path

from pydantic import Field, ValidationError, field_validator, model_validator

from ....contracts.base import MAX_SECONDS, Contract
from ....contracts.errors import ConfigurationError
from ....contracts.issues import Severity
from ....contracts.request import ModelProtocol
from ...params import describe_validation_error
from ...yaml_text import YamlTextError, read_yaml
from .mcp import McpDialect

PLACEHOLDERS = frozenset(
    {"model", "base_url", "root_url", "api_key", "prompt", "prompt_file", "agent_dir", "run_dir", "workdir"}
)

_PLACEHOLDER = re.compile(r"\{(\w+)\}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class TrajectoryFormat(StrEnum):
    """The formats that can be read."""

    TEXT = "text"
    """No steps: what the agent prints at the end is its answer."""
    MINI_SWE_AGENT = "mini-swe-agent"
    STREAM_JSON = "stream-json"
    """Of Claude Code, and of Qwen Code."""
    CODEX = "codex-json"
    OPENCODE = "opencode-json"
    OPENHANDS = "openhands-json"
    ATIF = "atif"


class Installation(Contract):
    """How the agent gets into an environment that does not have it."""

    check: str
    """A command that succeeds when the agent is there already."""
    command: str
    timeout_seconds: float = Field(default=900.0, gt=0, le=MAX_SECONDS)


class AgentFile(Contract):
    """A file that is written before the agent starts; in JSON strings, placeholders are escaped."""

    path: str
    """Relative to the run directory ``$AGENT_RUN_DIR``."""
    content: str

    @field_validator("path")
    @classmethod
    def _stays_inside(cls, value: str) -> str:
        if not value or value.startswith("/") or ".." in value.split("/"):
            raise ValueError(f"{value!r} must be a relative path below the run directory")
        return value

    @field_validator("content")
    @classmethod
    def _holds_no_key(cls, value: str) -> str:
        if "{api_key}" in value:
            raise ValueError("a key belongs into a variable, not into a file")
        return value


class TrajectorySource(Contract):
    """Where the agent tells what it does."""

    format: TrajectoryFormat = TrajectoryFormat.TEXT
    path: str | None = None
    """Relative to the run directory; by default the agent's standard output."""


class KnownFailure(Contract):
    """What a line of the agent's output means when it ends with a non-zero status."""

    pattern: str
    code: str
    severity: Severity = Severity.FATAL

    @field_validator("pattern")
    @classmethod
    def _compiles(cls, value: str) -> str:
        try:
            re.compile(value)
        except re.error as error:
            raise ValueError(f"not a regular expression: {error}") from None
        return value


class AgentDescription(Contract):
    """A command-line agent."""

    id: str = Field(pattern=r"^[a-z0-9][a-z0-9._-]*$")
    description: str = ""
    homepage: str = ""
    protocols: dict[ModelProtocol, dict[str, str]] = Field(min_length=1)
    """Variables by model protocol, in order of preference."""
    install: Installation
    variables: dict[str, str] = Field(default_factory=dict)
    """For the installation and the run, beside those of the protocol."""
    files: list[AgentFile] = Field(default_factory=list)
    run: str
    """Runs the agent on the task in ``$AGENT_PROMPT_FILE``; the work directory is the task's."""
    trajectory: TrajectorySource = Field(default_factory=TrajectorySource)
    mcp: McpDialect | None = None
    """How its configuration names MCP servers; without it, tasks that bring some are refused."""
    answer_path: str | None = None
    """A file in the run directory that holds the answer; by default it is taken from the trajectory."""
    failures: list[KnownFailure] = Field(default_factory=list)

    @model_validator(mode="after")
    def _known_placeholders(self) -> AgentDescription:
        tables = [self.variables, *self.protocols.values()]
        for name in [name for table in tables for name in table]:
            if not _VARIABLE.fullmatch(name):
                raise ValueError(f"{name!r} is not a valid name of an environment variable")
        for text in [text for table in tables for text in table.values()]:
            for name in _PLACEHOLDER.findall(text):
                if name not in PLACEHOLDERS - {"prompt"}:
                    raise ValueError(f"unknown placeholder {{{name}}} in a variable")
        placed = any("{mcp_servers}" in file.content for file in self.files)
        if placed != (self.mcp is not None):
            raise ValueError("mcp and a file with {mcp_servers} belong together")
        return self


def shipped_agents() -> list[str]:
    """Ids of the descriptions that come with AgentCompass."""
    folder = packaged(__package__) / "descriptions"
    return sorted(
        entry.name.removesuffix(".yaml") for entry in folder.iterdir() if entry.name.endswith(".yaml")
    )


def load_description(agent: str | None, path: str | None) -> AgentDescription:
    """A shipped description by id, or one of a file. Raises ``ConfigurationError`` that names it."""
    if path is not None:
        try:
            return _parse(Path(path).read_text(encoding="utf-8"), path)
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigurationError(f"description {path} cannot be read: {error}") from None
    if agent not in shipped_agents():
        raise ConfigurationError(f"unknown agent {agent!r}; there are {', '.join(shipped_agents())}")
    text = (packaged(__package__) / "descriptions" / f"{agent}.yaml").read_text(encoding="utf-8")
    return _parse(text, agent)


def _parse(text: str, name: str) -> AgentDescription:
    try:
        return AgentDescription.model_validate(read_yaml(text))
    except YamlTextError as error:
        raise ConfigurationError(f"description {name} is not YAML: {error}") from None
    except ValidationError as error:
        raise ConfigurationError(
            describe_validation_error(error, AgentDescription, f"description {name}")
        ) from None


def filled_in(text: str, values: dict[str, str]) -> str:
    """``text`` with the placeholders that ``values`` has; other braces stay as they are."""
    return _PLACEHOLDER.sub(lambda match: values.get(match[1], match[0]), text)
