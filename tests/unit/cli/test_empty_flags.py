"""An empty flag is a shell variable that is not set, and not a way to say nothing."""

from __future__ import annotations

from typing import Any

import pytest

from agentcompass.cli.config.arguments import RunArguments, argument_layers
from agentcompass.cli.main import run_cli
from agentcompass.contracts.errors import ConfigurationError

NAMES = {"benchmark": "quiz", "harness": "chat", "model": "m"}
FLAGS = {
    "model_base_url": "--model-base-url",
    "model_api_key": "--model-api-key",
    "model_api_protocol": "--model-api-protocol",
    "env": "--env",
    "results_dir": "--results-dir",
    "run_name": "--run-name",
    "run_id": "--run-id",
    "reuse": "--reuse",
    "model": "MODEL",
}


@pytest.mark.parametrize("value", ["", " \t"])
@pytest.mark.parametrize(("name", "flag"), FLAGS.items())
def test_empty_flag_is_refused_by_name(name: str, flag: str, value: str) -> None:
    arguments: dict[str, Any] = {**NAMES, name: value}
    with pytest.raises(ConfigurationError, match=f"^{flag}: the value is empty"):
        argument_layers(RunArguments(**arguments), "flags")


@pytest.mark.parametrize(
    ("name", "flag"), [("recipes", "--recipe"), ("recipe_dirs", "--recipe-dir"), ("config", "--config")]
)
def test_empty_item_of_a_repeatable_flag_is_refused(name: str, flag: str) -> None:
    arguments: dict[str, Any] = {**NAMES, name: ["x", ""]}
    with pytest.raises(ConfigurationError, match=f"^{flag}: the value is empty"):
        argument_layers(RunArguments(**arguments), "flags")


def test_empty_key_says_how_to_write_a_variable() -> None:
    with pytest.raises(ConfigurationError, match=r"\$\{NAME\}"):
        argument_layers(RunArguments(**NAMES, model_api_key=""), "flags")


def test_empty_parameter_of_python_means_none() -> None:
    layers = argument_layers(RunArguments(**NAMES, model_api_key=""), "parameters")
    assert layers[-1].data == {"model": {"api_key": ""}}


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["run", "qa", "oracle", "none", "--log-level", ""], "--log-level"),
        (["worker", "--task-queue", ""], "--task-queue: the value is empty"),
        (["cancel", "some-launch", "--request", ""], "--request: the value is empty"),
        (["cancel", "some-launch", "--request", "b", "--task="], "--task: the value is empty"),
        (["cancel", ""], "LAUNCH: the value is empty"),
        (["pause", "some-launch", "--request", " "], "--request: the value is empty"),
        (["resume", "some-launch", "--request", ""], "--request: the value is empty"),
        (["view", ""], "RUN_DIR: the value is empty"),
        (["compare", "one", ""], "NEW_RUN_DIR: the value is empty"),
        (["launch", ""], "FILE: the value is empty"),
        (["list", "hanress"], "'hanress' is not valid; did you mean 'harnesses'?"),
        (["summary"], "give a run directory"),
        (["summary", "one", "--input", "two"], "given twice"),
        (["analysis", "one", "--input", "two"], "given twice"),
    ],
)
def test_bad_usage_ends_with_2_and_says_why(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_cli(arguments) == 2
    told = capsys.readouterr().err
    assert says in told and "Value error" not in told


@pytest.mark.parametrize("name", ["harness", "harnesses"])
def test_components_are_listed_by_singular_and_plural(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli(["list", name]) == 0
    assert "oracle" in capsys.readouterr().out
