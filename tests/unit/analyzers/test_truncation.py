"""Analyzer ``truncation``."""

from typing import Any


async def test_cut_turns_are_counted_and_the_last_one_is_told_apart(findings: Any, steps: Any) -> None:
    result = steps(
        {"stop_reason": "length"},
        {"stop_reason": "stop"},
        {"stop_reason": "MAX_TOKENS", "usage": {"completion_tokens": 4096}},
        {"source": "user", "message": "ok", "stop_reason": "length"},
    )
    assert await findings("truncation", result) == [
        ("truncated_turns", 2, {"steps": [1, 3]}),
        ("truncated_answer", None, {"step": 3, "completion_tokens": 4096}),
    ]


async def test_a_cut_turn_before_the_last_is_no_cut_answer(findings: Any, steps: Any) -> None:
    result = steps({"stop_reason": "length"}, {"stop_reason": "tool_calls"})
    assert await findings("truncation", result) == [("truncated_turns", 1, {"steps": [1]})]


async def test_other_stop_reasons_say_nothing(findings: Any, steps: Any) -> None:
    assert await findings("truncation", steps({"stop_reason": "stop"}, {"stop_reason": None})) == []


async def test_the_stop_reasons_can_be_chosen(findings: Any, steps: Any) -> None:
    found = await findings("truncation", steps({"stop_reason": "budget"}), stop_reasons=["Budget"])
    assert [label for label, _, _ in found] == ["truncated_turns", "truncated_answer"]


def test_it_needs_a_trajectory(make: Any) -> None:
    assert make("truncation").requires_trajectory is True
