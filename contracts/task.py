"""Tasks: what a benchmark loads, and what it hands to a harness."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, JsonValue, field_validator, model_validator

from .artifacts import ArtifactCommand, ArtifactSpec, check_destinations
from .base import Contract
from .network import NetworkPolicy
from .request import EvaluationMode, ResourceRequirements

MOST_STEPS = 200
"""Of a task: all of them are in the history of one workflow."""


class OracleCommand(Contract):
    """How the reference solution is carried out, for tasks that are solved by doing something."""

    command: str = Field(min_length=1)
    """Goes to ``sh -c``; the benchmark has put the files that it needs in place."""
    cwd: str | None = None
    """Default: the environment's work directory."""
    user: str | None = None
    env_variables: dict[str, str] = Field(default_factory=dict)
    """Values may be secret references."""


class Message(Contract):
    """One message of a conversation; ``content`` is text or protocol content parts."""

    role: Literal["system", "user", "assistant", "tool"]
    content: str | list[dict[str, JsonValue]]
    name: str | None = None
    tool_call_id: str | None = None
    tool_calls: list[dict[str, JsonValue]] | None = None
    reasoning_parts: list[dict[str, JsonValue]] = Field(default_factory=list)
    """Of the assistant: what its protocol wants back unchanged with a tool call, such as signed thinking."""


class McpServer(Contract):
    """A server of the Model Context Protocol that the agent may use; it belongs to the task."""

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$")
    transport: Literal["stdio", "sse", "streamable-http"] = "sse"
    url: str | None = None
    """Of ``sse`` and ``streamable-http``, as it is reached from inside the environment."""
    command: str | None = None
    """Of ``stdio``: a program inside the environment."""
    args: list[str] = Field(default_factory=list)

    @model_validator(mode="after")
    def _is_complete(self) -> McpServer:
        if self.transport == "stdio" and not self.command:
            raise ValueError(f"MCP server {self.name!r}: transport 'stdio' needs a command")
        if self.transport != "stdio" and not self.url:
            raise ValueError(f"MCP server {self.name!r}: transport {self.transport!r} needs a url")
        return self


class TaskSpec(Contract):
    """One item of a benchmark. ``None`` in a policy, mode or budget means: not the task's business."""

    task_id: str
    question: str = ""
    category: str = ""
    ground_truth: JsonValue = None
    metadata: dict[str, JsonValue] = Field(default_factory=dict)
    resources: ResourceRequirements | None = None
    network_policy: NetworkPolicy | None = None
    run_network_policy: NetworkPolicy | None = None
    evaluation_network_policy: NetworkPolicy | None = None
    evaluation_environment_mode: EvaluationMode | None = None
    env_variables: dict[str, str] = Field(default_factory=dict)
    run_env_variables: dict[str, str] = Field(default_factory=dict)
    evaluation_env_variables: dict[str, str] = Field(default_factory=dict)
    evaluation_environment_env_variables: dict[str, str] | None = None
    image: str | None = None
    build_context: str | None = None
    """An absolute folder on the worker with a Dockerfile, for environments that build images."""
    artifacts: list[ArtifactSpec] | None = None
    artifact_collect: list[ArtifactCommand] = Field(default_factory=list)
    run_timeout_seconds: float | None = Field(default=None, gt=0)
    evaluation_timeout_seconds: float | None = Field(default=None, gt=0)
    oracle: OracleCommand | None = None
    """What the harness ``oracle`` runs instead of giving an answer."""
    mcp_servers: list[McpServer] = Field(default_factory=list)
    skills_dir: str | None = None
    """An absolute folder in the environment with skills for the agent, a folder each."""
    conversation: list[Message] = Field(default_factory=list)
    """What was said before the task; its agent is to go on from there."""
    steps: list[TaskSpec] = Field(default_factory=list, max_length=MOST_STEPS)
    """A task that is given step by step, in one environment. Each is a task of its own whose id is the name of
    the step: it has a prompt, an agent's run, an evaluation and budgets; see :func:`step_of`."""

    _check_artifacts = field_validator("artifacts")(check_destinations)

    @field_validator("steps")
    @classmethod
    def _plain_steps(cls, value: list[TaskSpec]) -> list[TaskSpec]:
        names = [step.task_id for step in value]
        if len(set(names)) < len(names) or not all(names):
            raise ValueError("every step needs a name of its own")
        if any(step.steps for step in value):
            raise ValueError("a step has no steps")
        return value


def step_of(task: TaskSpec, number: int) -> TaskSpec:
    """The task as it is in a step (from 1), or as a whole (0): what makes the environment is the whole task's."""
    if number == 0:
        return task
    common = (
        "task_id",
        "category",
        "resources",
        "network_policy",
        "env_variables",
        "image",
        "build_context",
        "mcp_servers",
        "skills_dir",
    )
    return task.steps[number - 1].model_copy(update={name: getattr(task, name) for name in common})


class MediaItem(Contract):
    """An image, audio or video that belongs to the input."""

    type: Literal["image", "audio", "video"]
    path: str | None = None
    url: str | None = None
    data: str | None = None
    mime_type: str | None = None
    label: str | None = None


class FileRef(Contract):
    """A file in the environment that the harness may show to the agent."""

    path: str
    label: str | None = None


class ToolDefinition(Contract):
    """A callable tool; ``parameters`` is a JSON Schema object."""

    name: str
    description: str = ""
    parameters: dict[str, JsonValue] = Field(default_factory=dict)


class OutputFile(Contract):
    """A file that the agent is asked to leave; absolute, or relative to the workspace."""

    path: str
    description: str = ""


class TaskInput(Contract):
    """What the harness gives to the agent."""

    prompt: str = ""
    system_prompt: str | None = None
    messages: list[Message] = Field(default_factory=list)
    tools: list[ToolDefinition] = Field(default_factory=list)
    files: list[FileRef] = Field(default_factory=list)
    media: list[MediaItem] = Field(default_factory=list)
    workspace: str | None = None
    mcp_servers: list[McpServer] = Field(default_factory=list)
    """For the agent; it can reach them from inside the environment."""
    skills_dir: str | None = None
    """A folder in the environment with skills for the agent, a folder each."""


class TaskOutput(Contract):
    """What the agent is expected to return."""

    answer: str | None = None
    files: list[OutputFile] = Field(default_factory=list)


class PreparedTask(Contract):
    """A task after its benchmark has prepared it in the environment."""

    task_id: str
    category: str = ""
    ground_truth: JsonValue = None
    input: TaskInput
    output: TaskOutput = Field(default_factory=TaskOutput)
    metadata: dict[str, JsonValue] = Field(default_factory=dict)
