"""Analyzer ``tool_repetition``."""

from typing import Any


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"tool_calls": [{"name": name, "arguments": arguments}]}


async def test_the_same_call_three_times_in_a_row_is_reported(findings: Any, steps: Any) -> None:
    result = steps(call("ls", path="/", all=True), *[call("cat", file="a")] * 3, call("ls", path="/"))
    assert await findings("tool_repetition", result) == [
        ("repeated_in_a_row", 3, {"tool": "cat", "arguments": '{"file": "a"}', "first_step": 2})
    ]


async def test_another_call_between_interrupts_the_row(findings: Any, steps: Any) -> None:
    result = steps(*[call("a"), call("a"), call("b")] * 3)
    assert await findings("tool_repetition", result) == []


async def test_the_order_of_arguments_does_not_matter(findings: Any, steps: Any) -> None:
    result = steps(call("f", x=1, y=2), call("f", y=2, x=1))
    [(label, value, _)] = await findings("tool_repetition", result, in_a_row=2)
    assert (label, value) == ("repeated_in_a_row", 2)


async def test_other_arguments_are_another_call(findings: Any, steps: Any) -> None:
    assert await findings("tool_repetition", steps(*[call("f", x=n) for n in range(30)])) == []


async def test_many_calls_overall_are_reported_beyond_the_limit_only(findings: Any, steps: Any) -> None:
    spread = [call("a"), call("b", n=1), call("b", n=2)]
    assert await findings("tool_repetition", steps(*spread * 10)) == []
    found = await findings("tool_repetition", steps(*spread * 11))
    assert [(label, value, details["tool"]) for label, value, details in found] == [
        ("repeated_calls", 11, "a"),
        ("repeated_calls", 11, "b"),
        ("repeated_calls", 11, "b"),
    ]


async def test_calls_of_one_turn_count_one_by_one(findings: Any, steps: Any) -> None:
    result = steps({"tool_calls": [{"name": "f"}, {"name": "f"}, {"name": "f"}]})
    [(_, value, details)] = await findings("tool_repetition", result)
    assert (value, details) == (3, {"tool": "f", "arguments": "null", "first_step": 1})


async def test_at_most_ten_findings_are_reported_the_worst_first(findings: Any, steps: Any) -> None:
    result = steps(*[call("f", n=n) for n in range(20) for _ in range(3 + n)])
    found = await findings("tool_repetition", result, in_total=100)
    assert [value for _, value, _ in found] == [22, 21, 20, 19, 18, 17, 16, 15, 14, 13]
