"""Streamed answers put together again, so that they can be read like any other."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import JsonValue

from ...contracts.request import ModelProtocol
from ..models.json_values import JsonObject, ProtocolViolation, decode_json


def assembled(protocol: ModelProtocol, content_type: str, raw: bytes) -> JsonObject:
    """The body of an answer. Raises ``ProtocolViolation`` when it is none."""
    if "event-stream" not in content_type:
        value = decode_json(raw)
        if not isinstance(value, dict):
            raise ProtocolViolation("the answer is not an object")
        return value
    events = list(_events(raw))
    if protocol is ModelProtocol.OPENAI_RESPONSES:
        return _responses(events)
    return _anthropic(events) if protocol is ModelProtocol.ANTHROPIC else _chat(events)


def _events(raw: bytes) -> Iterator[JsonObject]:
    for line in raw.split(b"\n"):
        if not line.startswith(b"data:"):
            continue
        try:
            value = decode_json(line[5:].strip())
        except ProtocolViolation:
            continue  # [DONE], or cut off
        if isinstance(value, dict):
            yield value


def _responses(events: list[JsonObject]) -> JsonObject:
    """The last event repeats the whole answer, in some servers without its output."""
    final = next((_object(event, "response") for event in reversed(events) if "response" in event), None)
    if final is None:
        raise ProtocolViolation("the stream has no response")
    done: list[JsonValue] = [
        event["item"]
        for event in events
        if event.get("type") == "response.output_item.done" and "item" in event
    ]
    return {**final, "output": final.get("output") or done}


def _anthropic(events: list[JsonObject]) -> JsonObject:
    message: JsonObject = {}
    blocks: dict[str, JsonObject] = {}
    for event in events:
        kind, index = event.get("type"), str(event.get("index"))
        if kind == "message_start":
            message = {**_object(event, "message")}
        elif kind == "content_block_start":
            blocks[index] = {**_object(event, "content_block"), "partial": ""}
        elif kind == "content_block_delta" and index in blocks:
            _extend(blocks[index], _object(event, "delta"))
        elif kind == "message_delta":
            usage = {**_object(message, "usage"), **_object(event, "usage")}
            message |= {**_object(event, "delta"), "usage": usage}
    if not message:
        raise ProtocolViolation("the stream has no message")
    return {**message, "content": [_finished(block) for block in blocks.values()]}


def _extend(block: JsonObject, delta: JsonObject) -> None:
    for source, target in (("text", "text"), ("thinking", "thinking"), ("partial_json", "partial")):
        piece = delta.get(source)
        if isinstance(piece, str):
            block[target] = f"{block.get(target) or ''}{piece}"


def _finished(block: JsonObject) -> JsonObject:
    partial = block.pop("partial", "")
    if block.get("type") == "tool_use" and isinstance(partial, str) and partial:
        try:
            block["input"] = decode_json(partial.encode("utf-8", "replace"))
        except ProtocolViolation:
            block["input"] = partial
    return block


def _chat(events: list[JsonObject]) -> JsonObject:
    body: JsonObject = {}
    texts = {"content": "", "reasoning_content": ""}
    calls: dict[str, JsonObject] = {}
    finish: JsonValue = None
    for event in events:
        body |= {key: event[key] for key in ("id", "model", "usage") if event.get(key) is not None}
        for choice in _objects(event, "choices")[:1]:
            delta = _object(choice, "delta")
            finish = choice.get("finish_reason") or finish
            for name in texts:
                piece = delta.get(name)
                texts[name] += piece if isinstance(piece, str) else ""
            for call in _objects(delta, "tool_calls"):
                _extend_call(calls.setdefault(str(call.get("index")), {"id": "", "function": {}}), call)
    if not events:
        raise ProtocolViolation("the stream has no event")
    tool_calls: list[JsonValue] = [*calls.values()]
    message: JsonObject = {**texts, "tool_calls": tool_calls}
    return {**body, "choices": [{"message": message, "finish_reason": finish}]}


def _extend_call(call: JsonObject, delta: JsonObject) -> None:
    call["id"] = delta.get("id") or call["id"]
    function, pieces = _object(call, "function"), _object(delta, "function")
    written = pieces.get("arguments")
    call["function"] = {
        "name": pieces.get("name") or function.get("name"),
        "arguments": f"{function.get('arguments') or ''}{written if isinstance(written, str) else ''}",
    }


def _object(value: JsonObject, key: str) -> JsonObject:
    found = value.get(key)
    return found if isinstance(found, dict) else {}


def _objects(value: JsonObject, key: str) -> list[JsonObject]:
    found = value.get(key)
    return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []
