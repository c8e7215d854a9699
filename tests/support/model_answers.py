"""What the scripted model endpoint answers, in the words of each protocol."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Reply:
    """One scripted answer."""

    content: str = ""
    reasoning: str | None = None
    tool_calls: tuple[dict[str, Any], ...] = ()
    """Each ``{"id", "name", "arguments"}``, the arguments an object or a text sent as it is."""
    stop_reason: str = "stop"
    """``stop``, ``length`` or ``tool_calls``; translated for each protocol."""
    prompt_tokens: int = 11
    completion_tokens: int = 7
    status: int = 200
    message: str = "scripted error"
    code: str | None = None
    headers: dict[str, str] = field(default_factory=dict)
    delay_seconds: float = 0.0
    hang: bool = False
    """Answer only after ``release()``."""
    drop: str = ""
    """``before`` closes the connection without a byte, ``body`` in the middle of the body, ``reset`` breaks it
    with a reset."""
    raw_body: str | bytes | None = None
    """Sent instead of a well-formed body."""


def error_body(protocol: str, reply: Reply) -> bytes:
    error = {"type": reply.code or "scripted_error", "code": reply.code, "message": reply.message}
    body: dict[str, Any] = {"error": error}
    return json.dumps({"type": "error", **body} if protocol == "anthropic" else body).encode()


def _arguments_text(call: dict[str, Any]) -> str:
    arguments = call.get("arguments", {})
    return arguments if isinstance(arguments, str) else json.dumps(arguments)


def _chat_answer(reply: Reply, model: str) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": reply.content or None}
    if reply.reasoning is not None:
        message["reasoning_content"] = reply.reasoning
    if reply.tool_calls:
        message["tool_calls"] = [
            {
                "id": call.get("id", "call_1"),
                "type": "function",
                "function": {"name": call["name"], "arguments": _arguments_text(call)},
            }
            for call in reply.tool_calls
        ]
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "model": model,
        "choices": [{"index": 0, "message": message, "finish_reason": reply.stop_reason}],
        "usage": {
            "prompt_tokens": reply.prompt_tokens,
            "completion_tokens": reply.completion_tokens,
            "total_tokens": reply.prompt_tokens + reply.completion_tokens,
        },
    }


def _responses_answer(reply: Reply, model: str) -> dict[str, Any]:
    output: list[dict[str, Any]] = []
    if reply.reasoning is not None:
        output.append({"type": "reasoning", "summary": [{"type": "summary_text", "text": reply.reasoning}]})
    if reply.content:
        part = {"type": "output_text", "text": reply.content, "annotations": []}
        output.append({"type": "message", "role": "assistant", "content": [part]})
    for call in reply.tool_calls:
        output.append(
            {
                "type": "function_call",
                "call_id": call.get("id", "call_1"),
                "name": call["name"],
                "arguments": _arguments_text(call),
            }
        )
    cut = reply.stop_reason == "length"
    return {
        "id": "resp-1",
        "object": "response",
        "status": "incomplete" if cut else "completed",
        "incomplete_details": {"reason": "max_output_tokens"} if cut else None,
        "error": None,
        "model": model,
        "output": output,
        "usage": {"input_tokens": reply.prompt_tokens, "output_tokens": reply.completion_tokens},
    }


def _anthropic_answer(reply: Reply, model: str) -> dict[str, Any]:
    content: list[dict[str, Any]] = []
    if reply.reasoning is not None:
        content.append({"type": "thinking", "thinking": reply.reasoning, "signature": "c2ln"})
    if reply.content:
        content.append({"type": "text", "text": reply.content})
    for call in reply.tool_calls:
        arguments = call.get("arguments", {})
        content.append(
            {"type": "tool_use", "id": call.get("id", "call_1"), "name": call["name"], "input": arguments}
        )
    words = {"stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use"}
    return {
        "id": "msg-1",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": content,
        "stop_reason": words.get(reply.stop_reason, reply.stop_reason),
        "stop_sequence": None,
        "usage": {"input_tokens": reply.prompt_tokens, "output_tokens": reply.completion_tokens},
    }


ANSWERS = {"chat": _chat_answer, "responses": _responses_answer, "anthropic": _anthropic_answer}
