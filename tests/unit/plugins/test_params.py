from typing import Any

import pytest
from pydantic import Field, ValidationError, field_validator

from agentcompass.contracts import Contract
from agentcompass.plugins.params import describe_validation_error


class Inner(Contract):
    depth: int = 0


class Outer(Contract):
    name: str
    limit: int = Field(default=1, ge=1)
    timeout_seconds: float = 1.0
    inner: Inner = Field(default_factory=Inner)
    tags: list[int] = Field(default_factory=list)

    @field_validator("name")
    @classmethod
    def _lower(cls, value: str) -> str:
        if value != value.lower():
            raise ValueError("must be lower case")
        return value


class Nothing(Contract):
    pass


def _described(values: Any, model: type[Contract] = Outer) -> str:
    with pytest.raises(ValidationError) as caught:
        model.model_validate(values)
    return describe_validation_error(caught.value, model, "here")


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"name": "n", "limt": 3}, "here: unknown key 'limt'; did you mean 'limit'?"),
        ({"name": "n", "inner": {"dept": 1}}, "here: unknown key 'inner.dept'; did you mean 'depth'?"),
        ({"name": "n", "zzz": 1}, "here: unknown key 'zzz'; known keys: inner, limit, name, tags, timeout_seconds"),
        ({}, "here: 'name' is required"),
        ({"name": "N"}, "here: 'name': must be lower case, got 'N'"),
        ({"name": "n", "limit": 0}, "here: 'limit': Input should be greater than or equal to 1, got 0"),
        ({"name": "n", "tags": [1, "x"]}, "here: 'tags.1': Input should be a valid integer, unable to parse string as an integer, got 'x'"),
        ({"name": "n", "inner": []}, "here: 'inner': Input should be a valid dictionary or instance of Inner"),
    ],
)  # fmt: skip
def test_a_problem_is_one_line_that_says_what_to_change(values: Any, text: str) -> None:
    assert _described(values) == text


def test_a_model_without_keys_says_so() -> None:
    assert _described({"x": 1}, Nothing) == "here: unknown key 'x'; it takes no keys"


def test_two_problems_are_shown_and_the_rest_is_counted() -> None:
    text = _described({"limit": 0, "timeout_seconds": [], "tags": 1})
    assert text == (
        "here: 'name' is required; 'limit': Input should be greater than or equal to 1, got 0 (and 2 more)"
    )


def test_a_long_value_is_not_repeated() -> None:
    assert _described({"name": "N" * 100}) == "here: 'name': must be lower case"
