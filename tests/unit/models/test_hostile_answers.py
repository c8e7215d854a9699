"""Answers with anything anywhere: either a readable reply or a ProtocolViolation, nothing else."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentcompass.contracts import ModelProtocol
from agentcompass.plugins.models.json_values import (
    ProtocolViolation,
    amount_in,
    arguments_of,
    count_in,
    decode_json,
    depth_exceeds,
)
from agentcompass.plugins.models.protocols import PROTOCOLS

GOOD: dict[ModelProtocol, dict[str, Any]] = {
    ModelProtocol.OPENAI_CHAT: {
        "id": "1",
        "model": "m",
        "choices": [
            {
                "finish_reason": "stop",
                "message": {
                    "content": [{"text": "x"}],
                    "reasoning": "r",
                    "refusal": None,
                    "tool_calls": [{"id": "1", "function": {"name": "f", "arguments": "{}"}}],
                },
            }
        ],
        "usage": {"prompt_tokens": 1, "prompt_tokens_details": {"cached_tokens": 1}, "cost": 1.0},
    },
    ModelProtocol.OPENAI_RESPONSES: {
        "id": "1",
        "status": "completed",
        "incomplete_details": None,
        "output": [
            {"type": "message", "content": [{"text": "x", "refusal": ""}]},
            {"type": "reasoning", "summary": [{"text": "r"}], "content": None},
            {"type": "function_call", "call_id": "1", "name": "f", "arguments": "{}"},
        ],
        "usage": {"input_tokens": 1, "input_tokens_details": {"cached_tokens": 1}},
    },
    ModelProtocol.ANTHROPIC: {
        "id": "1",
        "content": [
            {"type": "text", "text": "x"},
            {"type": "thinking", "thinking": "r"},
            {"type": "tool_use", "id": "1", "name": "f", "input": {}},
        ],
        "stop_reason": "end_turn",
        "usage": {"input_tokens": 1, "cache_read_input_tokens": 1},
    },
}
ODD: list[Any] = [
    None,
    True,
    -1,
    1.5,
    "",
    "x",
    [],
    [None],
    [[]],
    {},
    {"type": 1},
    {"text": 3},
    [{"text": {}}],
]


def paths_in(value: Any, prefix: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [prefix, *(path for key, item in items for path in paths_in(item, (*prefix, key)))]


def replaced(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    if not path:
        return new
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = replaced(value[path[0]], path[1:], new)
    return copy


@pytest.mark.parametrize("protocol", list(PROTOCOLS))
def test_an_odd_value_in_any_place_is_read_or_refused(protocol: ModelProtocol) -> None:
    wire = PROTOCOLS[protocol]()
    wire.read(GOOD[protocol])
    refused = 0
    for path in paths_in(GOOD[protocol])[1:]:
        for odd in ODD:
            try:
                reply = wire.read(replaced(GOOD[protocol], path, odd))
            except ProtocolViolation as violation:
                refused += 1
                assert str(violation)
            else:
                assert isinstance(reply.content, str)
    assert refused > 20


@pytest.mark.parametrize("protocol", list(PROTOCOLS))
@given(
    body=st.dictionaries(
        st.sampled_from(["choices", "output", "content", "usage", "model", "status", "stop_reason"]),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.text(max_size=5),
            lambda inner: (
                st.lists(inner, max_size=3)
                | st.dictionaries(
                    st.sampled_from(["message", "content", "type", "text", "function", "name"]),
                    inner,
                    max_size=3,
                )
            ),
            max_leaves=12,
        ),
    )
)
@settings(max_examples=100, deadline=None)
def test_random_objects_never_crash_a_reader(protocol: ModelProtocol, body: dict[str, Any]) -> None:
    try:
        PROTOCOLS[protocol]().read(body)
    except ProtocolViolation:
        pass


@pytest.mark.parametrize(
    "raw", [b"", b"<html>busy</html>", b"{", b'{"a": }', b"\xff\xfe", b"[" * 100_000, b"9" * 9999]
)
def test_what_is_no_json_is_a_violation_or_a_value(raw: bytes) -> None:
    try:
        assert isinstance(decode_json(raw), int | float)
    except ProtocolViolation:
        pass


def test_nesting_that_records_could_not_hold_is_refused() -> None:
    assert decode_json(b"[" * 64 + b"]" * 64) is not None
    with pytest.raises(ProtocolViolation, match="nested deeper than 64"):
        decode_json(b"[" * 65 + b"]" * 65)
    assert depth_exceeds([[1]], 1) and not depth_exceeds([[1]], 2)


def test_stray_bytes_are_replaced_not_refused() -> None:
    assert decode_json(b'{"a": "x\xffy"}') == {"a": "x\ufffdy"}


def test_lone_surrogates_and_nan_do_not_cost_the_answer() -> None:
    raw = b'{"a": "x\\ud83d", "b": NaN, "c": [Infinity], "d": "\\ud83d\\ude00"}'
    assert decode_json(raw) == {"a": "x\ufffd", "b": None, "c": [None], "d": "😀"}


def test_deep_arguments_stay_text() -> None:
    deep = "[" * 65 + "]" * 65
    assert arguments_of(deep) == deep
    assert arguments_of(json.dumps({"a": 1})) == {"a": 1}
    assert arguments_of("") == {}


def test_counts_and_amounts_of_odd_types_are_absent() -> None:
    usage = {"a": 3, "b": True, "c": -1, "d": "7", "e": 1.5, "f": {"g": 2}, "h": float("inf")}
    found = [
        count_in(usage, *path) for path in (["a"], ["b"], ["c"], ["d"], ["e"], ["f", "g"], ["a", "x"], ["z"])
    ]
    assert found == [3, None, None, None, None, 2, None, None]
    assert [amount_in(usage, key) for key in "abcdeh"] == [3.0, None, None, None, 1.5, None]
    assert count_in("text", "a") is None
