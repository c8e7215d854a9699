"""OpenAI's responses protocol."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import JsonValue

from ...contracts.errors import ConfigurationError
from ...contracts.request import ModelProtocol
from ...contracts.result import ToolCall, Usage
from ...contracts.task import Message, ToolDefinition
from .json_values import (
    JsonObject,
    ProtocolViolation,
    arguments_of,
    count_in,
    name_at,
    optional_text,
    text_at,
)
from .params import ModelParams
from .protocol import (
    Reply,
    WireProtocol,
    arguments_text,
    bearer,
    image_url_of,
    joined_text,
    objects_at,
    parts_of,
    schema_of,
    tool_call_of,
)

_STOP_WORDS = {"max_output_tokens": "length", "max_tokens": "length"}


class OpenAIResponses(WireProtocol):
    """``POST …/responses``."""

    name = ModelProtocol.OPENAI_RESPONSES

    def headers(self, api_key: str) -> dict[str, str]:
        return bearer(api_key)

    def body(
        self,
        model: str,
        messages: Sequence[Message],
        tools: Sequence[ToolDefinition],
        params: ModelParams,
        host: str,
    ) -> JsonObject:
        del host
        if params.stop is not None:
            raise ConfigurationError("model.params.stop: the openai-responses protocol has no stop sequences")
        items: list[JsonValue] = []
        for message in messages:
            items.extend(_items(message))
        body: JsonObject = {"model": model, "input": items}
        if tools:
            body["tools"] = [_tool(tool) for tool in tools]
        if params.temperature is not None:
            body["temperature"] = params.temperature
        if params.top_p is not None:
            body["top_p"] = params.top_p
        if params.max_tokens is not None:
            body["max_output_tokens"] = params.max_tokens
        return {**body, **params.body_extras}

    def read(self, body: JsonObject) -> Reply:
        if "output" not in body:
            raise ProtocolViolation("output is missing")
        status = optional_text(body.get("status"))
        if status not in (None, "completed", "incomplete"):
            raise ProtocolViolation(f"status is {status!r}, not completed")
        texts: list[str] = []
        refusals: list[str] = []
        thoughts: list[str] = []
        carried: list[JsonObject] = []
        calls: list[ToolCall] = []
        for item in objects_at(body.get("output"), "output"):
            match item.get("type"):
                case "message":
                    for part in objects_at(item.get("content"), "output[].content"):
                        texts.append(text_at(part.get("text"), "output[].content[].text"))
                        refusals.append(text_at(part.get("refusal"), "output[].content[].refusal"))
                case "reasoning":
                    carried.append(item)
                    thoughts += [
                        joined_text(item.get(key), f"output[].{key}") for key in ("summary", "content")
                    ]
                case "function_call":
                    calls.append(_read_call(item))
        refusal = "".join(refusals)
        raw_stop = _raw_stop(body, calls)
        usage = body.get("usage")
        return Reply(
            content="".join(texts) or refusal,
            reasoning="\n".join(thought for thought in thoughts if thought) or None,
            tool_calls=calls,
            reasoning_parts=carried,
            usage=Usage(
                prompt_tokens=count_in(usage, "input_tokens"),
                completion_tokens=count_in(usage, "output_tokens"),
                cached_tokens=count_in(usage, "input_tokens_details", "cached_tokens"),
                reasoning_tokens=count_in(usage, "output_tokens_details", "reasoning_tokens"),
            ),
            stop_reason=_STOP_WORDS.get(raw_stop, raw_stop),
            model=optional_text(body.get("model")),
            response_id=optional_text(body.get("id")),
            extra=_extra(body, raw_stop, refusal),
        )


def _raw_stop(body: JsonObject, calls: Sequence[ToolCall]) -> str:
    """The protocol gives a reason only for incomplete answers; for others it follows from the output."""
    details = body.get("incomplete_details")
    reason = optional_text(details.get("reason")) if isinstance(details, dict) else None
    if body.get("status") == "incomplete":
        return reason or "incomplete"
    return "tool_calls" if calls else "stop"


def _items(message: Message) -> list[JsonObject]:
    if message.role == "tool":
        output = joined_text([*parts_of(message)], "tool message")
        return [{"type": "function_call_output", "call_id": message.tool_call_id or "", "output": output}]
    items: list[JsonObject] = []
    if message.tool_calls:
        items += [part for part in message.reasoning_parts if part.get("type") == "reasoning"]
    parts: list[JsonValue] = [_part(part, message.role) for part in parts_of(message)]
    if parts:
        items.append({"role": message.role, "content": parts})
    for raw in message.tool_calls or []:
        call = tool_call_of(raw)
        items.append(
            {
                "type": "function_call",
                "call_id": call.id,
                "name": call.name,
                "arguments": arguments_text(call.arguments),
            }
        )
    return items


def _part(part: JsonObject, role: str) -> JsonObject:
    if part.get("type") == "text":
        return {"type": "output_text" if role == "assistant" else "input_text", "text": part.get("text")}
    url = image_url_of(part)
    return part if url is None else {"type": "input_image", "image_url": url}


def _tool(tool: ToolDefinition) -> JsonObject:
    # The protocol's default is strict, which refuses most schemas that were not written for it.
    return {
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": schema_of(tool),
        "strict": False,
    }


def _read_call(item: JsonObject) -> ToolCall:
    return ToolCall(
        id=text_at(item.get("call_id") or item.get("id"), "output[].call_id"),
        name=name_at(item.get("name"), "output[].name"),
        arguments=arguments_of(item.get("arguments")),
    )


def _extra(body: JsonObject, raw_stop: str, refusal: str) -> JsonObject:
    extra: JsonObject = {
        "raw_stop_reason": raw_stop,
        "refusal": refusal or None,
        "service_tier": body.get("service_tier"),
    }
    return {key: value for key, value in extra.items() if value is not None}
