"""Every parameter of every built-in component, and every field of what the store keeps, is named with the reason.

Given something wrong, as in ``test_every_field.py``; what is in a task file has tests of its own.
"""

from __future__ import annotations

import importlib
import json
import pkgutil
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

import agentcompass.activities.store
from agentcompass.contracts.benchmark_params import BenchmarkParams
from agentcompass.plugins.benchmarks.judging import JudgeCall, JudgeSettings
from agentcompass.plugins.builtin import register
from agentcompass.plugins.model_proxy.params import ModelProxyParams
from agentcompass.plugins.models.params import ModelParams
from agentcompass.plugins.params import describe_validation_error
from agentcompass.plugins.registry import ComponentKind, Registry

WRONG = [{"no such key": {"a": [1]}}, [[1]], "\t", -7, 0.5, True]
"""One of them fits no field."""
TAKES_MORE = {"ModelParams"}
"""Further parameters of a model go to its endpoint as they are."""


def parameter_models() -> dict[str, type[BaseModel]]:
    registry = Registry()
    registry.load_plugin("built-in", register)
    found: dict[str, type[BaseModel]] = {
        model.__name__: model
        for model in (JudgeSettings, JudgeCall, ModelProxyParams, ModelParams, BenchmarkParams)
    }
    for kind in ComponentKind:
        for item in registry.ids(kind):
            found[f"{kind}:{item}"] = registry.get(kind, item).Params
    return found


def store_models() -> dict[str, type[BaseModel]]:
    found: dict[str, type[BaseModel]] = {}
    for module in pkgutil.iter_modules(agentcompass.activities.store.__path__):
        loaded = importlib.import_module(f"agentcompass.activities.store.{module.name}")
        for value in vars(loaded).values():
            if (
                isinstance(value, type)
                and issubclass(value, BaseModel)
                and value.__module__ == loaded.__name__
            ):
                found[value.__name__] = value
    return found


MODELS = {**parameter_models(), **store_models()}
EVERY_FIELD = [(label, name) for label, model in MODELS.items() for name in model.model_fields]


def said_of(model: type[BaseModel], name: str, value: Any) -> list[str]:
    """The whole line that a user reads, of each problem of the field that holds ``value``."""
    try:
        model.model_validate_json(json.dumps({name: value}))
    except ValidationError as error:
        problems = [item for item in error.errors() if item["loc"] and item["loc"][0] == name]
        alone = [
            ValidationError.from_exception_data(
                model.__name__,
                [{"type": "value_error", "loc": item["loc"], "input": value, "ctx": {"error": item["msg"]}}],
            )
            for item in problems
        ]
        return [describe_validation_error(item, model, "given here") for item in alone]
    return []


def test_there_are_models_to_look_at() -> None:
    assert len(parameter_models()) > 25
    assert {"LedgerEntry", "RequestState", "DriverRecord", "OpenRun", "KeptEnvironment"} <= set(
        store_models()
    )
    assert len(EVERY_FIELD) > 120


@pytest.mark.parametrize(("label", "name"), EVERY_FIELD, ids=[".".join(item) for item in EVERY_FIELD])
def test_a_wrong_value_is_refused_by_the_name_of_its_field(label: str, name: str) -> None:
    lines = [line for value in WRONG for line in said_of(MODELS[label], name, value)]
    assert lines
    for line in lines:
        assert name in line
        assert "\n" not in line


@pytest.mark.parametrize("label", [label for label in MODELS if label not in TAKES_MORE])
def test_an_unknown_field_is_refused_by_its_name(label: str) -> None:
    assert MODELS[label].model_config.get("extra") == "forbid"
    [line] = said_of(MODELS[label], "no_such_field", 1)
    assert "no_such_field" in line
