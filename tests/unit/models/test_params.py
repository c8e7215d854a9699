"""Model parameters: typed ones, those of the client, and the rest for the request body."""

from __future__ import annotations

import pytest

from agentcompass.contracts import ConfigurationError, ModelSpec
from agentcompass.plugins.models import parse_model_params


def spec(**params: object) -> ModelSpec:
    return ModelSpec.model_validate({"id": "m", "params": params})


def test_defaults_of_the_client() -> None:
    params = parse_model_params(spec())
    assert (params.request_timeout_seconds, params.max_attempts) == (600.0, 7)
    assert (params.retry_min_delay_seconds, params.retry_max_delay_seconds) == (1.0, 60.0)
    assert params.body_extras == {}


def test_unlisted_keys_and_extra_body_go_into_the_body() -> None:
    params = parse_model_params(spec(top_k=20, seed=1, extra_body={"seed": 2, "min_p": 0.1}, max_attempts=2))
    assert params.body_extras == {"top_k": 20, "seed": 2, "min_p": 0.1}


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"temperature": "hot"}, "'temperature'"),
        ({"max_tokens": 0}, "'max_tokens'"),
        ({"request_timeout_seconds": 0}, "'request_timeout_seconds'"),
        ({"max_attempts": 0}, "'max_attempts'"),
        ({"stream": True}, "stream"),
        ({"extra_body": {"messages": []}}, "messages"),
        ({"model": "other"}, "model: set by the client"),
    ],
)
def test_a_wrong_parameter_is_named(params: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        parse_model_params(spec(**params))


def test_a_single_stop_text_becomes_a_list() -> None:
    assert parse_model_params(spec(stop="END")).stop_list == ["END"]
    assert parse_model_params(spec(stop=["a", "b"])).stop_list == ["a", "b"]
