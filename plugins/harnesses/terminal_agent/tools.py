"""The agent's tools: what the model is told of them, and how its calls are read."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError, field_validator

from ....contracts.result import ToolCall
from ....contracts.task import ToolDefinition

MAX_COMMAND_BYTES = 100_000
"""The system takes no longer argument than 128 KiB."""
MAX_WRITE_BYTES = 16 * 1024 * 1024


class _Arguments(BaseModel):
    """Keys that are not known are passed over: models invent some."""

    model_config = ConfigDict(extra="ignore", allow_inf_nan=False)


class Bash(_Arguments):
    """Run a command."""

    command: str = Field(min_length=1)
    timeout_seconds: float | None = Field(default=None, gt=0)

    @field_validator("command")
    @classmethod
    def _can_be_run(cls, value: str) -> str:
        if "\0" in value:
            raise ValueError("a command cannot hold a NUL character")
        if len(value.encode("utf-8", "replace")) > MAX_COMMAND_BYTES:
            raise ValueError(f"a command cannot be longer than {MAX_COMMAND_BYTES} bytes; write a file first")
        return value


class Read(_Arguments):
    """Read lines of a file."""

    path: str = Field(min_length=1)
    first_line: int = Field(default=1, ge=1)
    lines: int | None = Field(default=None, ge=1)


class Write(_Arguments):
    """Write a file."""

    path: str = Field(min_length=1)
    content: str

    @field_validator("content")
    @classmethod
    def _not_too_long(cls, value: str) -> str:
        if len(value) > MAX_WRITE_BYTES:
            raise ValueError(f"more than {MAX_WRITE_BYTES} characters cannot be written at once")
        return value


class Finish(_Arguments):
    """Be done."""

    answer: str | None = None


Parsed = Bash | Read | Write | Finish
_BY_NAME: dict[str, type[Bash] | type[Read] | type[Write] | type[Finish]] = {
    "bash": Bash,
    "read": Read,
    "write": Write,
    "finish": Finish,
}


class CallProblem(ValueError):
    """A call that cannot be carried out as it is written; the text is for the model."""


def parse_call(call: ToolCall) -> Parsed:
    """The call with checked arguments. Raises :class:`CallProblem`."""
    kind = _BY_NAME.get(call.name)
    if kind is None:
        raise CallProblem(f"there is no tool {call.name!r}; the tools are {', '.join(_BY_NAME)}")
    if not isinstance(call.arguments, dict):
        raise CallProblem("the arguments are not a JSON object; send the call again with valid JSON")
    try:
        return kind.model_validate(call.arguments)
    except ValidationError as error:
        problems = error.errors(include_url=False, include_input=False, include_context=False)
        told = "; ".join(f"{'.'.join(map(str, item['loc']))}: {item['msg']}" for item in problems[:3])
        raise CallProblem(f"wrong arguments: {told}") from None


def _tool(
    name: str, description: str, required: list[JsonValue], **properties: dict[str, JsonValue]
) -> ToolDefinition:
    schema: dict[str, JsonValue] = {"type": "object", "properties": {**properties}, "required": required}
    return ToolDefinition(name=name, description=description, parameters=schema)


TOOLS = (
    _tool(
        "bash",
        "Run a shell command. Each call starts in the work directory in a new shell: `cd` and variables do not "
        "last. It gets no input. What you start in the background goes on.",
        ["command"],
        command={"type": "string", "description": "Given to bash -c, or to sh -c where there is no bash."},
        timeout_seconds={"type": "number", "description": "After this it is ended, with all it started."},
    ),
    _tool(
        "read",
        "Read a text file, or some lines of it.",
        ["path"],
        path={"type": "string", "description": "Absolute, or relative to the work directory."},
        first_line={"type": "integer", "description": "The first line to read, from 1."},
        lines={"type": "integer", "description": "How many lines; all by default."},
    ),
    _tool(
        "write",
        "Write a text file; it and its folders are made, an existing file is replaced.",
        ["path", "content"],
        path={"type": "string", "description": "Absolute, or relative to the work directory."},
        content={"type": "string", "description": "The whole content."},
    ),
    _tool(
        "finish",
        "End your work on the task. Call it once, when everything is done and checked.",
        [],
        answer={"type": "string", "description": "The complete final answer, where the task asks for one."},
    ),
)
