"""Anthropic's messages protocol, version 2023-06-01."""

from __future__ import annotations

import re
from collections.abc import Sequence

from pydantic import JsonValue

from ...contracts.request import ModelProtocol
from ...contracts.result import ToolCall, Usage
from ...contracts.task import Message, ToolDefinition
from .json_values import (
    JsonObject,
    ProtocolViolation,
    count_in,
    name_at,
    optional_text,
    text_at,
)
from .params import ModelParams
from .protocol import (
    Reply,
    WireProtocol,
    arguments_object,
    image_url_of,
    joined_text,
    objects_at,
    parts_of,
    schema_of,
    stop_word,
    tool_call_of,
)

API_VERSION = "2023-06-01"
DEFAULT_MAX_TOKENS = 4096
"""The protocol demands a limit; used when ``model.params.max_tokens`` is not set."""

_STOP_WORDS = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool_calls",
    "refusal": "content_filter",
}
_DATA_URL = re.compile(r"data:(?P<type>[\w.+-]+/[\w.+-]+);base64,(?P<data>.*)", re.DOTALL)


class Anthropic(WireProtocol):
    """``POST …/v1/messages``."""

    name = ModelProtocol.ANTHROPIC

    def headers(self, api_key: str) -> dict[str, str]:
        headers = {"anthropic-version": API_VERSION}
        return {**headers, "x-api-key": api_key} if api_key else headers

    def body(
        self,
        model: str,
        messages: Sequence[Message],
        tools: Sequence[ToolDefinition],
        params: ModelParams,
        host: str,
    ) -> JsonObject:
        del host
        system = [
            joined_text([*parts_of(item)], "system message") for item in messages if item.role == "system"
        ]
        body: JsonObject = {
            "model": model,
            "max_tokens": params.max_tokens or DEFAULT_MAX_TOKENS,
            "messages": _turns(messages),
        }
        if any(system):
            body["system"] = "\n\n".join(text for text in system if text)
        if tools:
            body["tools"] = [
                {"name": tool.name, "description": tool.description, "input_schema": schema_of(tool)}
                for tool in tools
            ]
        if params.temperature is not None:
            body["temperature"] = params.temperature
        if params.top_p is not None:
            body["top_p"] = params.top_p
        if params.stop is not None:
            body["stop_sequences"] = list(params.stop_list)
        return {**body, **params.body_extras}

    def read(self, body: JsonObject) -> Reply:
        if "content" not in body:
            raise ProtocolViolation("content is missing")
        texts: list[str] = []
        thoughts: list[str] = []
        signed: list[JsonObject] = []
        calls: list[ToolCall] = []
        for block in objects_at(body.get("content"), "content"):
            match block.get("type"):
                case "text":
                    texts.append(text_at(block.get("text"), "content[].text"))
                case "thinking":
                    thoughts.append(text_at(block.get("thinking"), "content[].thinking"))
                    signed.append(block)
                case "redacted_thinking":
                    signed.append(block)
                case "tool_use":
                    calls.append(
                        ToolCall(
                            id=text_at(block.get("id"), "content[].id"),
                            name=name_at(block.get("name"), "content[].name"),
                            arguments=block.get("input"),
                        )
                    )
        raw_stop = optional_text(body.get("stop_reason"))
        return Reply(
            content="".join(texts),
            reasoning="\n".join(thought for thought in thoughts if thought) or None,
            tool_calls=calls,
            reasoning_parts=signed,
            usage=_usage(body.get("usage")),
            stop_reason=stop_word(raw_stop, _STOP_WORDS),
            model=optional_text(body.get("model")),
            response_id=optional_text(body.get("id")),
            extra=_extra(body, raw_stop),
        )


def _usage(usage: JsonValue) -> Usage:
    """``input_tokens`` leaves out what went through the cache; the other protocols count it in."""
    fresh = count_in(usage, "input_tokens")
    read = count_in(usage, "cache_read_input_tokens")
    written = count_in(usage, "cache_creation_input_tokens")
    return Usage(
        prompt_tokens=None if fresh is None else fresh + (read or 0) + (written or 0),
        completion_tokens=count_in(usage, "output_tokens"),
        cached_tokens=read,
    )


def _turns(messages: Sequence[Message]) -> list[JsonValue]:
    """User and assistant turns in alternation: what follows in the same role is joined.

    The results of several tool calls must stand in one user turn.
    """
    turns: list[tuple[str, list[JsonValue]]] = []
    for message in messages:
        blocks = _blocks(message)
        role = "assistant" if message.role == "assistant" else "user"
        if message.role == "system" or not blocks:
            continue
        if turns and turns[-1][0] == role:
            turns[-1][1].extend(blocks)
        else:
            turns.append((role, [*blocks]))
    return [{"role": role, "content": content} for role, content in turns]


def _blocks(message: Message) -> list[JsonObject]:
    content = [_block(part) for part in parts_of(message)]
    if message.role == "tool":
        result: list[JsonValue] = [*content]
        return [{"type": "tool_result", "tool_use_id": message.tool_call_id or "", "content": result}]
    for raw in message.tool_calls or []:
        call = tool_call_of(raw)
        content.append(
            {
                "type": "tool_use",
                "id": call.id,
                "name": call.name,
                "input": arguments_object(call.arguments),
            }
        )
    # Signed thinking stands in front of what it led to; without a tool call nobody asks for it.
    return [*_thinking(message), *content] if message.tool_calls else content


def _thinking(message: Message) -> list[JsonObject]:
    return [part for part in message.reasoning_parts if part.get("type") in ("thinking", "redacted_thinking")]


def _block(part: JsonObject) -> JsonObject:
    url = image_url_of(part)
    if url is None:
        return part
    if match := _DATA_URL.fullmatch(url):
        source: JsonObject = {"type": "base64", "media_type": match["type"], "data": match["data"]}
    else:
        source = {"type": "url", "url": url}
    return {"type": "image", "source": source}


def _extra(body: JsonObject, raw_stop: str | None) -> JsonObject:
    extra: JsonObject = {
        "raw_stop_reason": raw_stop,
        "stop_sequence": body.get("stop_sequence"),
        "container": body.get("container"),
    }
    return {key: value for key, value in extra.items() if value is not None}
