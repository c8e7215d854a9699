"""The scripted answers as server-sent events, for clients that ask for a stream."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

Event = tuple[str, dict[str, Any]]


def stream_of(protocol: str, answer: dict[str, Any]) -> bytes:
    """The whole stream of an answer in the shape of ``model_answers.ANSWERS``."""
    events = {"chat": _chat, "responses": _responses, "anthropic": _anthropic}[protocol](answer)
    lines = [(f"event: {name}\n" if name else "") + f"data: {json.dumps(data)}\n\n" for name, data in events]
    return ("".join(lines) + ("data: [DONE]\n\n" if protocol == "chat" else "")).encode()


def _chat(answer: dict[str, Any]) -> Iterator[Event]:
    head = {"id": answer["id"], "object": "chat.completion.chunk", "created": 1, "model": answer["model"]}
    [choice] = answer["choices"]
    message = dict(choice["message"])
    calls = [{"index": index, **call} for index, call in enumerate(message.pop("tool_calls", []))]
    delta = {**message, **({"tool_calls": calls} if calls else {})}
    yield "", {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    yield "", {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}]}
    yield "", {**head, "choices": [], "usage": answer["usage"]}


def _anthropic(answer: dict[str, Any]) -> Iterator[Event]:
    opening = {**answer, "content": [], "stop_reason": None, "usage": {**answer["usage"], "output_tokens": 0}}
    yield "message_start", {"type": "message_start", "message": opening}
    for index, block in enumerate(answer["content"]):
        if block["type"] == "text":
            empty = {"type": "text", "text": ""}
            delta = {"type": "text_delta", "text": block["text"]}
        elif block["type"] == "tool_use":
            empty = {**block, "input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        else:
            empty = {"type": "thinking", "thinking": ""}
            delta = {"type": "thinking_delta", "thinking": block["thinking"]}
        yield "content_block_start", {"type": "content_block_start", "index": index, "content_block": empty}
        yield "content_block_delta", {"type": "content_block_delta", "index": index, "delta": delta}
        yield "content_block_stop", {"type": "content_block_stop", "index": index}
    ending = {"stop_reason": answer["stop_reason"], "stop_sequence": None}
    usage = {"output_tokens": answer["usage"]["output_tokens"]}
    yield "message_delta", {"type": "message_delta", "delta": ending, "usage": usage}
    yield "message_stop", {"type": "message_stop"}


def _responses(answer: dict[str, Any]) -> Iterator[Event]:
    opening = {**answer, "status": "in_progress", "output": []}
    yield "response.created", {"type": "response.created", "response": opening}
    for index, item in enumerate(answer["output"]):
        item = {"id": f"item_{index}", "status": "completed", **item}
        place = {"output_index": index, "item_id": item["id"]}
        yield "response.output_item.added", {"type": "response.output_item.added", **place, "item": item}
        if item["type"] == "message":
            text = item["content"][0]["text"]
            yield (
                "response.output_text.delta",
                {"type": "response.output_text.delta", **place, "content_index": 0, "delta": text},
            )
        yield "response.output_item.done", {"type": "response.output_item.done", **place, "item": item}
    usage = {
        **answer["usage"],
        "total_tokens": sum(answer["usage"].values()),
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens_details": {"reasoning_tokens": 0},
    }
    yield "response.completed", {"type": "response.completed", "response": {**answer, "usage": usage}}
