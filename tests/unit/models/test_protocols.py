"""The wire formats: what is sent and how answers are read, with expected bodies written out."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agentcompass.contracts import ConfigurationError, Message, ModelProtocol, ToolCall, ToolDefinition, Usage
from agentcompass.plugins.models.params import ModelParams
from agentcompass.plugins.models.protocols import PROTOCOLS

CHAT = PROTOCOLS[ModelProtocol.OPENAI_CHAT]()
RESPONSES = PROTOCOLS[ModelProtocol.OPENAI_RESPONSES]()
ANTHROPIC = PROTOCOLS[ModelProtocol.ANTHROPIC]()

TOOL = ToolDefinition(
    name="add", description="adds", parameters={"type": "object", "properties": {"a": {"type": "number"}}}
)
CALL = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a": 1}'}}
PIXEL = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
CONVERSATION = [
    Message(role="system", content="Be brief."),
    Message(role="user", content=[{"type": "text", "text": "See:"}, PIXEL]),
    Message(
        role="assistant", content="", tool_calls=[CALL, {"id": "c2", "name": "add", "arguments": {"a": 2}}]
    ),
    Message(role="tool", content="1", tool_call_id="c1"),
    Message(role="tool", content="2", tool_call_id="c2"),
    Message(role="user", content="And now?"),
]
PARAMS = ModelParams(temperature=0.5, top_p=0.9, max_tokens=100, extra_body={"seed": 7})


def test_chat_body() -> None:
    body = CHAT.body("m", CONVERSATION, [TOOL], PARAMS.model_copy(update={"stop": "END"}), "example.com")
    assert body == {
        "model": "m",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": [{"type": "text", "text": "See:"}, PIXEL]},
            {
                "role": "assistant",
                "content": "",
                "tool_calls": [
                    {"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a": 1}'}},
                    {"id": "c2", "type": "function", "function": {"name": "add", "arguments": '{"a": 2}'}},
                ],
            },
            {"role": "tool", "content": "1", "tool_call_id": "c1"},
            {"role": "tool", "content": "2", "tool_call_id": "c2"},
            {"role": "user", "content": "And now?"},
        ],
        "tools": [
            {
                "type": "function",
                "function": {
                    "name": "add",
                    "description": "adds",
                    "parameters": {"type": "object", "properties": {"a": {"type": "number"}}},
                },
            }
        ],
        "temperature": 0.5,
        "top_p": 0.9,
        "max_tokens": 100,
        "stop": ["END"],
        "seed": 7,
    }


def test_chat_limit_has_its_newer_name_at_openai() -> None:
    body = CHAT.body("m", [], [], ModelParams(max_tokens=5), "api.openai.com")
    assert body == {"model": "m", "messages": [], "max_completion_tokens": 5}


def test_responses_body() -> None:
    assert RESPONSES.body("m", CONVERSATION, [TOOL], PARAMS, "example.com") == {
        "model": "m",
        "input": [
            {"role": "system", "content": [{"type": "input_text", "text": "Be brief."}]},
            {
                "role": "user",
                "content": [
                    {"type": "input_text", "text": "See:"},
                    {"type": "input_image", "image_url": "data:image/png;base64,AAAA"},
                ],
            },
            {"type": "function_call", "call_id": "c1", "name": "add", "arguments": '{"a": 1}'},
            {"type": "function_call", "call_id": "c2", "name": "add", "arguments": '{"a": 2}'},
            {"type": "function_call_output", "call_id": "c1", "output": "1"},
            {"type": "function_call_output", "call_id": "c2", "output": "2"},
            {"role": "user", "content": [{"type": "input_text", "text": "And now?"}]},
        ],
        "tools": [
            {
                "type": "function",
                "name": "add",
                "description": "adds",
                "parameters": {"type": "object", "properties": {"a": {"type": "number"}}},
                "strict": False,
            }
        ],
        "temperature": 0.5,
        "top_p": 0.9,
        "max_output_tokens": 100,
        "seed": 7,
    }


def test_responses_refuse_stop_sequences() -> None:
    with pytest.raises(ConfigurationError, match="stop"):
        RESPONSES.body("m", [], [], ModelParams(stop="END"), "example.com")


def test_anthropic_body() -> None:
    body = ANTHROPIC.body("m", CONVERSATION, [TOOL], PARAMS.model_copy(update={"stop": "END"}), "example.com")
    assert body == {
        "model": "m",
        "max_tokens": 100,
        "system": "Be brief.",
        "messages": [
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "See:"},
                    {
                        "type": "image",
                        "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"},
                    },
                ],
            },
            {
                "role": "assistant",
                "content": [
                    {"type": "tool_use", "id": "c1", "name": "add", "input": {"a": 1}},
                    {"type": "tool_use", "id": "c2", "name": "add", "input": {"a": 2}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": "1"}]},
                    {"type": "tool_result", "tool_use_id": "c2", "content": [{"type": "text", "text": "2"}]},
                    {"type": "text", "text": "And now?"},
                ],
            },
        ],
        "tools": [
            {
                "name": "add",
                "description": "adds",
                "input_schema": {"type": "object", "properties": {"a": {"type": "number"}}},
            }
        ],
        "temperature": 0.5,
        "top_p": 0.9,
        "stop_sequences": ["END"],
        "seed": 7,
    }


def test_anthropic_always_sends_a_limit() -> None:
    assert ANTHROPIC.body("m", [], [], ModelParams(), "h") == {
        "model": "m",
        "max_tokens": 4096,
        "messages": [],
    }


def test_keys_travel_in_the_header_of_the_protocol_and_only_if_there_is_one() -> None:
    assert CHAT.headers("k") == RESPONSES.headers("k") == {"authorization": "Bearer k"}
    assert ANTHROPIC.headers("k") == {"anthropic-version": "2023-06-01", "x-api-key": "k"}
    assert CHAT.headers("") == {}
    assert ANTHROPIC.headers("") == {"anthropic-version": "2023-06-01"}


def test_chat_answer() -> None:
    reply = CHAT.read(
        {
            "id": "r1",
            "model": "m-2026",
            "system_fingerprint": "fp",
            "choices": [
                {
                    "finish_reason": "tool_calls",
                    "message": {"content": None, "reasoning_content": "hm", "tool_calls": [CALL]},
                }
            ],
            "usage": {
                "prompt_tokens": 10,
                "completion_tokens": 5,
                "cost": 0.25,
                "prompt_tokens_details": {"cached_tokens": 4},
                "completion_tokens_details": {"reasoning_tokens": 3},
            },
        }
    )
    assert (reply.content, reply.reasoning, reply.stop_reason) == ("", "hm", "tool_calls")
    assert reply.tool_calls == [ToolCall(id="c1", name="add", arguments={"a": 1})]
    assert reply.usage == Usage(prompt_tokens=10, completion_tokens=5, cached_tokens=4, reasoning_tokens=3)
    assert (reply.model, reply.response_id, reply.cost_usd) == ("m-2026", "r1", 0.25)
    assert reply.extra == {"raw_stop_reason": "tool_calls", "system_fingerprint": "fp"}


def test_chat_refusal_is_the_answer() -> None:
    reply = CHAT.read({"choices": [{"message": {"content": None, "refusal": "I can't."}}]})
    assert (reply.content, reply.extra) == ("I can't.", {"refusal": "I can't."})


def test_chat_content_parts_are_joined() -> None:
    parts = [{"type": "text", "text": "4"}, {"type": "text", "text": "2"}]
    assert CHAT.read({"choices": [{"message": {"content": parts}}]}).content == "42"


def test_arguments_that_are_no_json_are_kept_as_text() -> None:
    call = {"id": "c", "function": {"name": "f", "arguments": '{"a": '}}
    reply = CHAT.read({"choices": [{"message": {"content": "", "tool_calls": [call]}}]})
    assert reply.tool_calls == [ToolCall(id="c", name="f", arguments='{"a": ')]


def test_responses_answer() -> None:
    reply = RESPONSES.read(
        {
            "id": "r1",
            "model": "m",
            "status": "completed",
            "output": [
                {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]},
                {
                    "type": "message",
                    "content": [{"type": "output_text", "text": "4"}, {"type": "output_text", "text": "2"}],
                },
                {"type": "function_call", "call_id": "c1", "name": "add", "arguments": '{"a": 1}'},
                {"type": "web_search_call", "status": "completed"},
            ],
            "usage": {
                "input_tokens": 10,
                "output_tokens": 5,
                "input_tokens_details": {"cached_tokens": 4},
                "output_tokens_details": {"reasoning_tokens": 3},
            },
        }
    )
    assert (reply.content, reply.reasoning, reply.stop_reason) == ("42", "hm", "tool_calls")
    assert reply.tool_calls == [ToolCall(id="c1", name="add", arguments={"a": 1})]
    assert reply.usage == Usage(prompt_tokens=10, completion_tokens=5, cached_tokens=4, reasoning_tokens=3)


def test_responses_truncation_has_the_common_word() -> None:
    body = {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}, "output": []}
    reply = RESPONSES.read(body)
    assert (reply.stop_reason, reply.extra["raw_stop_reason"]) == ("length", "max_output_tokens")


def test_anthropic_answer() -> None:
    reply = ANTHROPIC.read(
        {
            "id": "msg",
            "model": "m",
            "content": [
                {"type": "thinking", "thinking": "hm", "signature": "s"},
                {"type": "redacted_thinking", "data": "x"},
                {"type": "text", "text": "42"},
                {"type": "tool_use", "id": "c1", "name": "add", "input": {"a": 1}},
            ],
            "stop_reason": "tool_use",
            "usage": {
                "input_tokens": 10,
                "output_tokens": 5,
                "cache_read_input_tokens": 4,
                "cache_creation_input_tokens": 2,
            },
        }
    )
    assert (reply.content, reply.reasoning, reply.stop_reason) == ("42", "hm", "tool_calls")
    assert reply.tool_calls == [ToolCall(id="c1", name="add", arguments={"a": 1})]
    assert reply.usage == Usage(prompt_tokens=16, completion_tokens=5, cached_tokens=4)
    assert reply.extra == {"raw_stop_reason": "tool_use"}


@pytest.mark.parametrize(
    ("raw", "word"),
    [
        ("end_turn", "stop"),
        ("max_tokens", "length"),
        ("refusal", "content_filter"),
        ("pause_turn", "pause_turn"),
    ],
)
def test_anthropic_stop_reasons_get_the_common_word(raw: str, word: str) -> None:
    assert ANTHROPIC.read({"content": [], "stop_reason": raw}).stop_reason == word


def turn(**fields: Any) -> list[Message]:
    """The second call of an agent: its first answer, and what the tool returned."""
    called = Message(role="assistant", content="", tool_calls=[CALL], **fields)
    return [Message(role="user", content="?"), called, Message(role="tool", content="1", tool_call_id="c1")]


def test_signed_thinking_goes_back_in_front_of_its_tool_call() -> None:
    blocks = [
        {"type": "thinking", "thinking": "hm", "signature": "s"},
        {"type": "redacted_thinking", "data": "x"},
        {"type": "tool_use", "id": "c1", "name": "add", "input": {"a": 1}},
    ]
    parts = ANTHROPIC.read({"content": blocks}).reasoning_parts
    body = ANTHROPIC.body("m", turn(reasoning_parts=parts), [TOOL], PARAMS, "h")
    assert body["messages"][1] == {"role": "assistant", "content": blocks}  # type: ignore[index]


def test_reasoning_items_go_back_in_front_of_their_tool_call() -> None:
    item = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "abc"}
    call = {"type": "function_call", "call_id": "c1", "name": "add", "arguments": '{"a": 1}'}
    parts = RESPONSES.read({"output": [item, call]}).reasoning_parts
    body = RESPONSES.body("m", turn(reasoning_parts=parts), [TOOL], PARAMS, "h")
    assert body["input"][1:3] == [item, call]  # type: ignore[index]


def test_reasoning_of_chat_servers_goes_back_with_its_tool_call_only() -> None:
    message = {"content": "", "reasoning_content": "hm", "tool_calls": [CALL]}
    parts = CHAT.read({"choices": [{"message": message}]}).reasoning_parts
    sent = CHAT.body("m", turn(reasoning_parts=parts), [TOOL], PARAMS, "h")["messages"]
    assert sent[1]["reasoning_content"] == "hm"  # type: ignore[index,call-overload]
    said = Message(role="assistant", content="4", reasoning_parts=parts)
    assert CHAT.body("m", [said], [], ModelParams(), "h")["messages"] == [
        {"role": "assistant", "content": "4"}
    ]


@pytest.mark.parametrize("written", ['{"a": ', [1], "text", 7])
def test_malformed_arguments_go_back_inside_an_object(written: Any) -> None:
    messages = [
        Message(role="assistant", content="", tool_calls=[{"id": "c", "name": "f", "arguments": written}])
    ]
    wrapped = {"malformed_arguments": written}
    chat = CHAT.body("m", messages, [], ModelParams(), "h")["messages"]
    assert json.loads(chat[0]["tool_calls"][0]["function"]["arguments"]) == wrapped  # type: ignore[index,call-overload]
    responses = RESPONSES.body("m", messages, [], ModelParams(), "h")["input"]
    assert json.loads(responses[0]["arguments"]) == wrapped  # type: ignore[index,call-overload]
    anthropic = ANTHROPIC.body("m", messages, [], ModelParams(), "h")["messages"]
    assert anthropic[0]["content"][0]["input"] == wrapped  # type: ignore[index,call-overload]
