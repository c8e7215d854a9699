"""The data files of the package ``bfcl-eval``, version 4."""

from __future__ import annotations

import importlib.util
from enum import StrEnum
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, JsonValue, field_validator

from ....contracts.errors import DatasetError
from ..jsonl import read_jsonl, require_unique

DATASET_PACKAGE = "bfcl_eval"
_PREFIX = "BFCL_v4_"


class Category(StrEnum):
    """The single-turn categories whose calls are in Python's types."""

    SIMPLE = "simple_python"
    MULTIPLE = "multiple"
    PARALLEL = "parallel"
    PARALLEL_MULTIPLE = "parallel_multiple"
    IRRELEVANCE = "irrelevance"
    LIVE_SIMPLE = "live_simple"
    LIVE_MULTIPLE = "live_multiple"
    LIVE_PARALLEL = "live_parallel"
    LIVE_PARALLEL_MULTIPLE = "live_parallel_multiple"
    LIVE_IRRELEVANCE = "live_irrelevance"
    LIVE_RELEVANCE = "live_relevance"

    @property
    def has_answers(self) -> bool:
        """False where only calling or not calling counts."""
        return not self.value.endswith("relevance")

    @classmethod
    def _missing_(cls, value: object) -> Category | None:
        return cls.SIMPLE if value == "simple" else None


class FunctionDoc(BaseModel):
    """A function that the model may call, in the leaderboard's types (``dict``, ``float``, ``tuple``)."""

    model_config = ConfigDict(extra="ignore")

    name: str = Field(min_length=1)
    description: str = ""
    parameters: dict[str, JsonValue]

    @field_validator("parameters")
    @classmethod
    def _has_properties(cls, value: dict[str, JsonValue]) -> dict[str, JsonValue]:
        properties = value.get("properties")
        if not isinstance(properties, dict) or not all(
            isinstance(item, dict) for item in properties.values()
        ):
            raise ValueError("must be an object with properties")
        return value


class _Turn(BaseModel):
    model_config = ConfigDict(extra="ignore")

    role: str = Field(pattern="^(system|user|assistant)$")
    content: str


class _Question(BaseModel):
    model_config = ConfigDict(extra="ignore")

    id: str = Field(min_length=1)
    question: list[list[_Turn]] = Field(min_length=1, max_length=1)
    function: list[FunctionDoc]


PossibleCall = dict[str, dict[str, list[JsonValue]]]
"""A function's name, and for each parameter what is accepted; ``""`` in there: it may be left out."""


class _Answer(BaseModel):
    model_config = ConfigDict(extra="ignore")

    id: str
    ground_truth: list[PossibleCall] = Field(min_length=1)


class Problem(BaseModel):
    """A question with its functions and what is accepted."""

    id: str
    category: Category
    messages: list[dict[str, str]]
    functions: list[FunctionDoc]
    answers: list[PossibleCall]


def packaged_folder() -> Path:
    """The data folder of the installed package, which is not imported. Raises ``DatasetError``."""
    spec = importlib.util.find_spec(DATASET_PACKAGE)
    for location in (spec.submodule_search_locations or []) if spec else []:
        folder = Path(location) / "data"
        if folder.is_dir():
            return folder
    raise DatasetError(
        "the BFCL data is not installed: pip install --no-deps bfcl-eval (its dependencies are not needed), "
        "or give the benchmark parameter 'path' with a folder of its data files"
    )


def problems(folder: Path, category: Category) -> list[Problem]:
    """The problems of a category. Blocks. Raises ``DatasetError`` that names file and line."""
    name = f"{_PREFIX}{category.value}.json"
    rows = read_jsonl(folder / name, _Question)
    require_unique(rows, lambda row: row.id, "id")
    answers: dict[str, list[PossibleCall]] = {}
    if category.has_answers:
        answers = {
            item.row.id: item.row.ground_truth
            for item in read_jsonl(folder / "possible_answer" / name, _Answer)
        }
    found = []
    for item in rows:
        row = item.row
        if not row.function and category is not Category.LIVE_IRRELEVANCE:
            raise DatasetError(f"{item.place}: {row.id!r} has no function")
        if category.has_answers and row.id not in answers:
            raise DatasetError(f"{item.place}: possible_answer/{name} has no answer for {row.id!r}")
        found.append(
            Problem(
                id=row.id,
                category=category,
                messages=[turn.model_dump() for turn in row.question[0]],
                functions=row.function,
                answers=answers.get(row.id, []),
            )
        )
    return found
