"""The settings that results were made with: what was set, and not what a version's defaults are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, Field
from reuse_runs import Runs

from agentcompass.activities.reuse.settings import differences, settings_digest, settings_of
from agentcompass.activities.services import RequestComponents


class Judge(BaseModel):
    strict: bool = False
    words: list[str] = Field(default_factory=list)


class Before(BaseModel):
    path: str = ""
    rounds: int | None = 3
    judge: Judge = Judge(strict=True)


class NewJudge(Judge):
    votes: int = 1


class After(Before):
    """A later version, with more parameters."""

    retrieval: bool = True
    judge: NewJudge = NewJudge(strict=True)


@pytest.fixture
def runs(tmp_path: Path) -> Runs:
    return Runs(tmp_path)


def components(runs: Runs, params: type[BaseModel], **values: Any) -> RequestComponents:
    made = runs.components(runs.request())
    benchmark = made.request.benchmark.model_copy(update={"params": values})
    made.request = made.request.model_copy(update={"benchmark": benchmark})
    made.benchmark.params = params.model_validate(values)
    return made


@pytest.mark.parametrize("values", [{}, {"rounds": 5}, {"judge": {"strict": False, "words": ["a"]}}])
def test_a_parameter_that_a_later_version_adds_makes_no_other_settings(
    runs: Runs, values: dict[str, Any]
) -> None:
    before, after = components(runs, Before, **values), components(runs, After, **values)
    assert settings_digest(before) == settings_digest(after)


@pytest.mark.parametrize("values", [{"rounds": 3}, {"judge": {"strict": True}}, {"judge": {"strict": True, "words": []}}])  # fmt: skip
def test_a_default_that_is_written_down_makes_no_other_settings(runs: Runs, values: dict[str, Any]) -> None:
    assert settings_digest(components(runs, Before, **values)) == settings_digest(components(runs, Before))


@pytest.mark.parametrize(
    "values", [{"rounds": 4}, {"rounds": None}, {"judge": {}}, {"judge": {"strict": True, "words": ["a"]}}]
)
def test_every_other_value_makes_other_settings(runs: Runs, values: dict[str, Any]) -> None:
    assert settings_digest(components(runs, Before, **values)) != settings_digest(components(runs, Before))


def test_a_difference_tells_the_default_of_the_side_that_did_not_set_it(runs: Runs) -> None:
    here = components(runs, Before, rounds=5)
    there = components(runs, Before)
    assert differences(settings_of(there), settings_of(here)) == ["benchmark.params.rounds: 3 there, 5 here"]
