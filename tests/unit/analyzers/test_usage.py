"""Analyzer ``usage``."""

import math
from typing import Any


async def test_tokens_and_cost_stand_beside_the_calls_that_report_them(findings: Any, steps: Any) -> None:
    result = steps(
        {"usage": {"prompt_tokens": 100, "completion_tokens": 20, "cached_tokens": 64}, "cost_usd": 0.25},
        {"usage": {"prompt_tokens": 150, "completion_tokens": 30, "reasoning_tokens": 7}, "cost_usd": 0.5},
        {"message": "no usage"},
        {"source": "system", "usage": {"prompt_tokens": 9}},
    )
    assert await findings("usage", result) == [
        (
            "tokens",
            300,
            {
                "prompt_tokens": 250,
                "completion_tokens": 50,
                "cached_tokens": 64,
                "reasoning_tokens": 7,
                "calls": 3,
                "calls_that_report": 2,
            },
        ),
        ("cost_usd", 0.75, {"calls": 3, "calls_that_report": 2}),
    ]


async def test_nothing_is_said_where_nothing_was_reported(findings: Any, steps: Any) -> None:
    assert await findings("usage", steps({"message": "a"}, {"usage": {"cached_tokens": 1}})) == []


async def test_thresholds_give_labels_of_their_own(findings: Any, steps: Any) -> None:
    result = steps({"usage": {"prompt_tokens": 8, "completion_tokens": 3}, "cost_usd": 2.0})
    found = await findings("usage", result, many_tokens=10, high_cost_usd=1.5)
    assert [(label, value) for label, value, _ in found] == [
        ("tokens", 11),
        ("many_tokens", 11),
        ("cost_usd", 2.0),
        ("high_cost", 2.0),
    ]
    found = await findings("usage", result, many_tokens=11, high_cost_usd=2)
    assert [label for label, _, _ in found] == ["tokens", "cost_usd"]


async def test_what_is_no_amount_is_left_out(findings: Any, steps: Any) -> None:
    result = steps({"usage": {"prompt_tokens": -5, "completion_tokens": 2}, "cost_usd": math.nan})
    [(label, value, _)] = await findings("usage", result)
    assert (label, value) == ("tokens", 2)
