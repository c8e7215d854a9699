"""A row of the data set, in the format of ``swebench`` 5: image and evaluation script are part of it."""

from __future__ import annotations

import json
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from ....contracts.base import Contract


class Instance(BaseModel):
    """One line of the file; further keys are ignored."""

    model_config = ConfigDict(extra="ignore")

    instance_id: str = Field(min_length=1, pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")
    repo: str
    version: str
    problem_statement: str = Field(min_length=1)
    patch: str
    FAIL_TO_PASS: list[str]
    PASS_TO_PASS: list[str]
    log_parser: str = Field(min_length=1)
    eval_type: str = "pass_and_fail"
    eval_script: str = Field(min_length=1)
    image: str | None = None
    difficulty: str = ""
    setup_script: str = ""
    """Ours, for tasks without an image: a shell script that makes the repository below the work directory."""

    @model_validator(mode="before")
    @classmethod
    def _of_this_version(cls, value: Any) -> Any:
        if isinstance(value, dict) and "test_patch" in value and "eval_script" not in value:
            raise ValueError(
                "a row for swebench 4, without the evaluation script that swebench 5 runs; take the data set "
                "SWE-bench/SWE-bench_Verified as it is now"
            )
        return value

    @field_validator("FAIL_TO_PASS", "PASS_TO_PASS", mode="before")
    @classmethod
    def _from_json(cls, value: Any) -> Any:
        if isinstance(value, str):
            try:
                return json.loads(value)
            except (ValueError, RecursionError):
                raise ValueError("is neither a list nor a list in JSON") from None
        return value

    @property
    def official_image(self) -> str:
        """The image of the row, else the name under which the project publishes it."""
        name = self.instance_id.replace("__", "_1776_").lower()
        return self.image or f"swebench/sweb.eval.x86_64.{name}:latest"


class InstanceFacts(Contract):
    """The metadata of a task: what its evaluation needs. The gold patch is the task's ground truth."""

    repo: str
    version: str
    fail_to_pass: list[str]
    pass_to_pass: list[str]
    log_parser: str
    eval_type: str
    eval_script: str
    setup_script: str = ""
