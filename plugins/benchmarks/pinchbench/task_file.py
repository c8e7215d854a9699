"""A task file: YAML front matter, then sections; read as what it is, a stranger's text."""

from __future__ import annotations

import re
from enum import StrEnum
from pathlib import Path, PurePosixPath
from typing import Any

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)

from ....contracts.errors import DatasetError
from ...params import describe_validation_error
from ...yaml_text import YamlTextError, read_yaml

_LARGEST_BYTES = 1024 * 1024
_FRONT = re.compile(r"\A---\r?\n(.*?)\r?\n---\r?\n", re.DOTALL)
_FENCE = re.compile(r"^\s*(```+|~~~+)")
_BLOCK = re.compile(r"^```(?:python|py|sh|bash)?[ \t]*\n(.*?)^```[ \t]*$", re.DOTALL | re.MULTILINE)


class GradingType(StrEnum):
    """Who judges a task."""

    AUTOMATED = "automated"
    LLM_JUDGE = "llm_judge"
    HYBRID = "hybrid"


class WorkspaceFile(BaseModel):
    """A file that lies in the work directory at the start: its content, or where it comes from."""

    model_config = ConfigDict(extra="forbid")

    path: str = ""
    content: str | None = None
    source: str | None = None
    dest: str = ""

    @model_validator(mode="after")
    def _one_form(self) -> WorkspaceFile:
        if (self.content is None) == (self.source is None):
            raise ValueError("give path and content, or source and dest")
        self.path = self.path or self.dest
        for value in (self.path, self.source or "x"):
            path = PurePosixPath(value)
            if path.is_absolute() or ".." in path.parts or not path.name or "\0" in value:
                raise ValueError(f"file name {value!r} must be a relative path without '..'")
        return self


class GradingWeights(BaseModel):
    """How much checks and judge count in ``hybrid`` tasks."""

    model_config = ConfigDict(extra="ignore", allow_inf_nan=False)

    automated: float = Field(default=0.5, ge=0)
    llm_judge: float = Field(default=0.5, ge=0)

    @model_validator(mode="after")
    def _something_counts(self) -> GradingWeights:
        if self.automated + self.llm_judge <= 0:
            raise ValueError("one of the grading weights must be above 0")
        return self


class FrontMatter(BaseModel):
    """The front matter; further keys are ignored."""

    model_config = ConfigDict(extra="ignore", allow_inf_nan=False)

    id: str = Field(min_length=1, pattern=r"^\S+$")
    name: str = ""
    category: str = ""
    grading_type: GradingType
    timeout_seconds: float = Field(default=120.0, gt=0, le=1e6)
    workspace_files: list[WorkspaceFile] = Field(default_factory=list)
    grading_weights: GradingWeights = Field(default_factory=GradingWeights)
    multi_session: bool = False
    sessions: Any = None
    """Only whether there are any counts: to look into them would take as long as their author likes (YAML's aliases)."""

    @field_validator("workspace_files", mode="before")
    @classmethod
    def _null_means_none(cls, value: object) -> object:
        return [] if value is None else value


class TaskFile(BaseModel):
    """A whole task."""

    front: FrontMatter
    prompt: str
    expected_behavior: str = ""
    criteria: str = ""
    checks: str = ""
    """Python source that defines ``grade(transcript, workspace_path)``."""
    rubric: str = ""
    solution: str = ""
    """Ours: a shell script of the section "Reference Solution", for the oracle."""


def read_task_file(path: Path) -> TaskFile:
    """Parse a file. Blocks. Raises ``DatasetError`` that names it."""
    try:
        with path.open("rb") as stream:
            data = stream.read(_LARGEST_BYTES + 1)
    except OSError as error:
        raise DatasetError(f"{path} cannot be read: {error.strerror}") from None
    if len(data) > _LARGEST_BYTES:
        raise DatasetError(f"{path} is larger than {_LARGEST_BYTES} bytes")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DatasetError(f"{path} is not UTF-8 (byte {error.start + 1})") from None
    return _parsed(text.replace("\r\n", "\n"), str(path))


def _parsed(text: str, place: str) -> TaskFile:
    found = _FRONT.match(text)
    if found is None:
        raise DatasetError(f"{place} does not begin with front matter between lines '---'")
    try:
        front = FrontMatter.model_validate(_yaml(found[1], place))
    except ValidationError as error:
        raise DatasetError(describe_validation_error(error, FrontMatter, place)) from None
    try:
        front.model_dump_json(exclude={"sessions"})
    except ValueError:  # YAML's \u escapes may stand for halves of characters
        raise DatasetError(f"{place}: the front matter has text that is not Unicode") from None
    sections = _sections(text[found.end() :])
    task = TaskFile(
        front=front,
        prompt=sections.get("prompt", ""),
        expected_behavior=sections.get("expected behavior", ""),
        criteria=sections.get("grading criteria", ""),
        checks=_block(sections.get("automated checks", "")),
        rubric=sections.get("llm judge rubric", ""),
        solution=_block(sections.get("reference solution", "")),
    )
    for problem in _problems(task):
        raise DatasetError(f"{place}: {problem}")
    return task


def _yaml(text: str, place: str) -> object:
    try:
        return read_yaml(text)
    except YamlTextError as error:
        raise DatasetError(f"{place}: the front matter is not YAML: {error}") from None


def _problems(task: TaskFile) -> list[str]:
    kind, found = task.front.grading_type, []
    if task.front.multi_session or task.front.sessions:
        found.append("tasks of several sessions are not supported")
    if not task.prompt:
        found.append("the section Prompt is missing")
    if kind is not GradingType.LLM_JUDGE and "def grade(" not in task.checks:
        found.append(f"grading_type {kind} needs a section Automated Checks with a function grade")
    if kind is not GradingType.AUTOMATED and not (task.rubric or task.criteria):
        found.append(f"grading_type {kind} needs a section LLM Judge Rubric or Grading Criteria")
    return found


def _sections(text: str) -> dict[str, str]:
    """Texts by their headings of the second level, in lower case; headings inside code are none."""
    sections: dict[str, list[str]] = {}
    lines: list[str] = []
    fence = ""
    for line in text.splitlines(keepends=True):
        mark = _FENCE.match(line)
        if mark and (not fence or mark[1].startswith(fence)):
            fence = "" if fence else mark[1]
        if not fence and line.startswith("## "):
            lines = sections.setdefault(line[3:].strip().lower(), [])
        else:
            lines.append(line)
    return {name: "".join(part).strip().removesuffix("---").strip() for name, part in sections.items()}


def _block(section: str) -> str:
    found = _BLOCK.search(section + "\n")
    return found[1] if found else ""
