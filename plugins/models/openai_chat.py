"""OpenAI's chat completions, as spoken by most servers and gateways."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import JsonValue

from ...contracts.request import ModelProtocol
from ...contracts.result import ToolCall, Usage
from ...contracts.task import Message, ToolDefinition
from .endpoint import OPENAI_HOST
from .json_values import (
    JsonObject,
    ProtocolViolation,
    amount_in,
    arguments_of,
    count_in,
    name_at,
    object_at,
    optional_text,
    text_at,
)
from .params import ModelParams
from .protocol import (
    Reply,
    WireProtocol,
    arguments_text,
    bearer,
    joined_text,
    objects_at,
    schema_of,
    stop_word,
    tool_call_of,
)

_REASONING_KEYS = ("reasoning_content", "reasoning_details")
"""Where servers put the reasoning that they want back with the results of tool calls."""
_STOP_WORDS = {"function_call": "tool_calls", "max_tokens": "length"}


class OpenAIChat(WireProtocol):
    """``POST …/chat/completions``."""

    name = ModelProtocol.OPENAI_CHAT

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
        # OpenAI's reasoning models refuse max_tokens; most other servers know nothing else.
        limit_name = "max_completion_tokens" if host == OPENAI_HOST else "max_tokens"
        body: JsonObject = {"model": model, "messages": [_message(message) for message in messages]}
        if tools:
            body["tools"] = [_tool(tool) for tool in tools]
        if params.temperature is not None:
            body["temperature"] = params.temperature
        if params.top_p is not None:
            body["top_p"] = params.top_p
        if params.max_tokens is not None:
            body[limit_name] = params.max_tokens
        if params.stop is not None:
            body["stop"] = list(params.stop_list)
        return {**body, **params.body_extras}

    def read(self, body: JsonObject) -> Reply:
        choices = objects_at(body.get("choices"), "choices")
        if not choices:
            raise ProtocolViolation("choices is missing or empty")
        choice = choices[0]
        message = object_at(choice.get("message"), "choices[0].message")
        content = joined_text(message.get("content"), "choices[0].message.content")
        refusal = optional_text(message.get("refusal"))
        reasoning = message.get("reasoning_content") or message.get("reasoning")
        raw_stop = optional_text(choice.get("finish_reason"))
        usage = body.get("usage")
        return Reply(
            content=content or refusal or "",
            reasoning=optional_text(reasoning),
            tool_calls=[_read_call(call) for call in objects_at(message.get("tool_calls"), "tool_calls")],
            reasoning_parts=[{key: message[key]} for key in _REASONING_KEYS if message.get(key)],
            usage=Usage(
                prompt_tokens=count_in(usage, "prompt_tokens"),
                completion_tokens=count_in(usage, "completion_tokens"),
                cached_tokens=count_in(usage, "prompt_tokens_details", "cached_tokens"),
                reasoning_tokens=count_in(usage, "completion_tokens_details", "reasoning_tokens"),
            ),
            stop_reason=stop_word(raw_stop, _STOP_WORDS),
            model=optional_text(body.get("model")),
            response_id=optional_text(body.get("id")),
            cost_usd=amount_in(usage, "cost"),
            extra=_extra(body, choice, raw_stop, refusal),
        )


def _message(message: Message) -> JsonObject:
    content: JsonValue = message.content if isinstance(message.content, str) else [*message.content]
    wire: JsonObject = {"role": message.role, "content": content}
    if message.name:
        wire["name"] = message.name
    if message.tool_call_id is not None:
        wire["tool_call_id"] = message.tool_call_id
    if message.tool_calls:
        wire["tool_calls"] = [_write_call(tool_call_of(call)) for call in message.tool_calls]
        for part in message.reasoning_parts:
            wire.update({key: part[key] for key in _REASONING_KEYS if key in part})
    return wire


def _write_call(call: ToolCall) -> JsonObject:
    function: JsonObject = {"name": call.name, "arguments": arguments_text(call.arguments)}
    return {"id": call.id, "type": "function", "function": function}


def _tool(tool: ToolDefinition) -> JsonObject:
    function: JsonObject = {"name": tool.name, "description": tool.description, "parameters": schema_of(tool)}
    return {"type": "function", "function": function}


def _read_call(call: JsonObject) -> ToolCall:
    function = object_at(call.get("function"), "tool_calls[].function")
    return ToolCall(
        id=text_at(call.get("id"), "tool_calls[].id"),
        name=name_at(function.get("name"), "tool_calls[].function.name"),
        arguments=arguments_of(function.get("arguments")),
    )


def _extra(body: JsonObject, choice: JsonObject, raw_stop: str | None, refusal: str | None) -> JsonObject:
    extra: JsonObject = {
        "raw_stop_reason": raw_stop,
        "refusal": refusal,
        "logprobs": choice.get("logprobs"),
        "system_fingerprint": body.get("system_fingerprint"),
        "service_tier": body.get("service_tier"),
        "provider": body.get("provider"),
    }
    return {key: value for key, value in extra.items() if value is not None}
