"""Every field of every model that crosses a boundary, given something wrong, is named with the reason.

The fields of a configuration have a table of their own, with every message: ``cli/test_config_fields.py``.
"""

from __future__ import annotations

import importlib
import json
import pkgutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

import agentcompass.contracts
from agentcompass.activities.store.files import parse_model
from agentcompass.contracts.base import Contract
from agentcompass.contracts.errors import RecordError

WRONG = [{"no such key": {"a": [1]}}, [[1]], "\t", -7, 0.5, True]
"""One of them fits no field, but for those that may hold anything."""
ANYTHING = {
    *("AnalysisFinding.value", "AttemptCheckpoint.ground_truth", "AttemptRecord.final_answer"),
    *("Observation.content", "PreparedTask.ground_truth", "RunResult.final_answer", "RunResult.ground_truth"),
    *("StepResult.final_answer", "TaskRecord.ground_truth", "TaskSpec.ground_truth", "ToolCall.arguments"),
    "TrajectoryStep.message",
}
"""Fields that hold any JSON value, because a benchmark's author says what is in them."""


def models() -> list[type[Contract]]:
    found: dict[str, type[Contract]] = {}
    for module in pkgutil.iter_modules(agentcompass.contracts.__path__):
        for value in vars(importlib.import_module(f"agentcompass.contracts.{module.name}")).values():
            if (
                isinstance(value, type)
                and issubclass(value, BaseModel)
                and value.__module__.startswith("agentcompass")
            ):
                found[value.__name__] = value
    return [found[name] for name in sorted(found)]


MODELS = models()


def complaints(model: type[BaseModel], name: str, value: Any) -> list[str]:
    """What is said of a field that holds ``value``."""
    try:
        model.model_validate_json(json.dumps({name: value}))
    except ValidationError as error:
        return [item["msg"] for item in error.errors() if item["loc"] and item["loc"][0] == name]
    return []


def test_there_are_models_to_look_at() -> None:
    assert len(MODELS) > 80
    assert sum(len(model.model_fields) for model in MODELS) > 400


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_a_wrong_value_is_refused_by_the_name_of_its_field(model: type[BaseModel]) -> None:
    said = {
        name: [line for value in WRONG for line in complaints(model, name, value)]
        for name in model.model_fields
    }
    free = {name for name in said if f"{model.__name__}.{name}" in ANYTHING}
    assert {name for name, lines in said.items() if not lines} == free
    for lines in said.values():
        assert all(line and "\n" not in line for line in lines)


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_an_unknown_field_is_refused(model: type[BaseModel]) -> None:
    if model.model_config.get("extra") == "forbid":
        assert complaints(model, "no_such_field", 1) == ["Extra inputs are not permitted"]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@settings(max_examples=400, deadline=None)
@given(data=st.data())
def test_any_file_is_a_model_or_refused_in_one_line_that_names_it(data: st.DataObject) -> None:
    model = data.draw(st.sampled_from(MODELS))
    fields = st.sampled_from(sorted(model.model_fields) or ["x"])
    content = data.draw(
        st.binary(max_size=40)
        | st.just(b'{"line\\nbreak": 1}')
        | JSON.map(lambda value: json.dumps(value).encode())
        | st.dictionaries(fields, JSON, max_size=4).map(lambda value: json.dumps(value).encode())
    )
    try:
        found = parse_model(content, model, Path("run/file.json"))
    except RecordError as error:
        assert str(error).startswith("run/file.json")
        assert "\n" not in str(error)
    else:
        assert isinstance(found, model)
