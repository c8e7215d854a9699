"""Which model endpoints a request depends on."""

from __future__ import annotations

from typing import Any

import pytest

from agentcompass.activities.request_endpoints import request_endpoints
from agentcompass.activities.services import build_components
from agentcompass.contracts.endpoints import RequestEndpoints
from agentcompass.contracts.request import RunRequest
from agentcompass.plugins.models.endpoint import endpoint_id
from agentcompass.plugins.registry import load_registry

URL, KEY = "https://api.example.org/v1", "env:SOME_KEY"
MODEL = {"id": "m", "base_url": URL, "api_key": KEY}
JUDGE = {"id": "j", "base_url": "https://judge.example.org/v1", "api_key": "env:JUDGE_KEY"}
OF_MODEL, OF_JUDGE = endpoint_id(URL, KEY), endpoint_id(JUDGE["base_url"], "env:JUDGE_KEY")
QUESTIONS = {"path": "/questions.jsonl"}


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Components are made with the keys themselves."""
    monkeypatch.setenv("SOME_KEY", "key-of-the-model-1")
    monkeypatch.setenv("JUDGE_KEY", "key-of-the-judge-1")


def endpoints(
    benchmark: str = "qa", harness: str = "openai_chat", model: Any = None, **params: Any
) -> RequestEndpoints:
    request = RunRequest(
        benchmark={"id": benchmark, "params": {**QUESTIONS, **params}},
        harness={"id": harness},
        environment={"id": "host_process"},
        model=model or MODEL,
    )
    return request_endpoints(build_components(request, load_registry()))


def test_the_evaluated_model_is_called_where_it_says() -> None:
    assert endpoints() == RequestEndpoints(model=OF_MODEL)


@pytest.mark.parametrize("harness", ["oracle", "nop"])
def test_a_harness_that_calls_no_model_depends_on_none(harness: str) -> None:
    assert endpoints(harness=harness) == RequestEndpoints()


def test_a_benchmark_that_runs_its_tasks_itself_says_whether_it_calls_a_model() -> None:
    assert endpoints(benchmark="command", harness="none") == RequestEndpoints()


@pytest.mark.parametrize("benchmark", ["judged_qa", "pinchbench"])
def test_a_judge_is_known_by_the_reference_of_its_key(benchmark: str) -> None:
    found = endpoints(benchmark=benchmark, judge=JUDGE)
    assert found == RequestEndpoints(model=OF_MODEL, judge=OF_JUDGE)


def test_a_judge_that_is_the_evaluated_endpoint_has_the_same_name() -> None:
    found = endpoints(benchmark="judged_qa", judge={**MODEL, "id": "another"})
    assert found == RequestEndpoints(model=OF_MODEL, judge=OF_MODEL)


@pytest.mark.parametrize(
    ("model", "url"),
    [
        ({"id": "gpt-x"}, "https://api.openai.com/v1"),
        ({"id": "claude-x"}, "https://api.anthropic.com"),
        ({"id": "x", "api_protocol": "anthropic"}, "https://api.anthropic.com"),
    ],
)
def test_without_an_address_the_vendor_of_the_protocol_is_meant(model: dict[str, str], url: str) -> None:
    assert endpoints(model={**model, "api_key": KEY}).model == endpoint_id(url, KEY)


@pytest.mark.parametrize("model", [{"id": "scripted"}, {"id": "m", "api_protocol": "scripted"}, {"id": "m"}])
def test_answers_from_a_file_and_a_model_without_address_and_key_have_no_endpoint(
    model: dict[str, str],
) -> None:
    assert endpoints(model=model).model == ""


def test_an_address_that_cannot_be_called_is_left_to_others_to_refuse() -> None:
    assert endpoints(model={"id": "m", "base_url": "http://h:99999"}).model == ""
