"""The seam between HTTP and a wire protocol, and what the protocols share."""

from __future__ import annotations

import abc
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from pydantic import JsonValue

from ...contracts.request import ModelProtocol
from ...contracts.result import ToolCall, Usage
from ...contracts.task import Message, ToolDefinition
from .json_values import JsonObject, arguments_of, list_at, object_at, text_at
from .params import ModelParams


@dataclass(frozen=True)
class Reply:
    """The answer as a protocol reads it, before HTTP facts are added."""

    content: str
    reasoning: str | None = None
    tool_calls: list[ToolCall] = field(default_factory=list)
    reasoning_parts: list[JsonObject] = field(default_factory=list)
    """What the protocol wants back unchanged beside the results of the tool calls."""
    usage: Usage = field(default_factory=Usage)
    stop_reason: str | None = None
    model: str | None = None
    response_id: str | None = None
    cost_usd: float | None = None
    extra: JsonObject = field(default_factory=dict)


class WireProtocol(abc.ABC):
    """Turns a conversation into a request body and a response body into a :class:`Reply`."""

    name: ClassVar[ModelProtocol]

    @abc.abstractmethod
    def headers(self, api_key: str) -> dict[str, str]:
        """Headers of a request; without credentials when ``api_key`` is empty."""

    @abc.abstractmethod
    def body(
        self,
        model: str,
        messages: Sequence[Message],
        tools: Sequence[ToolDefinition],
        params: ModelParams,
        host: str,
    ) -> JsonObject:
        """The request body. Raises ``ConfigurationError`` for a parameter it cannot express."""

    @abc.abstractmethod
    def read(self, body: JsonObject) -> Reply:
        """The answer in a response body. Raises ``ProtocolViolation``."""


def bearer(api_key: str) -> dict[str, str]:
    """The header that OpenAI-style endpoints expect."""
    return {"authorization": f"Bearer {api_key}"} if api_key else {}


def tool_call_of(value: JsonValue) -> ToolCall:
    """A tool call of ``Message.tool_calls``: ours, or in the shape of OpenAI's chat protocol."""
    call = object_at(value, "tool call")
    function = object_at(call["function"], "tool call function") if "function" in call else call
    name = text_at(function.get("name"), "tool call name")
    return ToolCall(
        id=text_at(call.get("id"), "tool call id"),
        name=name,
        arguments=arguments_of(function.get("arguments")),
    )


def arguments_object(arguments: JsonValue) -> JsonObject:
    """Arguments as an object, which is all that every server accepts back.

    What the model wrote instead of one is kept inside, so that it sees its mistake.
    """
    if isinstance(arguments, dict):
        return arguments
    return {} if arguments is None else {"malformed_arguments": arguments}


def arguments_text(arguments: JsonValue) -> str:
    """Arguments as the JSON text that OpenAI's protocols carry."""
    return json.dumps(arguments_object(arguments), ensure_ascii=False)


def schema_of(tool: ToolDefinition) -> JsonObject:
    """The tool's JSON Schema; one without parameters still is an object."""
    return tool.parameters or {"type": "object", "properties": {}}


def parts_of(message: Message) -> list[JsonObject]:
    """The content of a message as parts; empty text is left out."""
    if isinstance(message.content, str):
        return [{"type": "text", "text": message.content}] if message.content else []
    return list(message.content)


def joined_text(value: JsonValue, where: str) -> str:
    """Text that is a string, null, or an array of parts of which those with ``text`` count."""
    if not isinstance(value, list):
        return text_at(value, where)
    texts: list[str] = []
    for index, item in enumerate(value):
        part = item if isinstance(item, str) else object_at(item, f"{where}[{index}]").get("text")
        texts.append(text_at(part, f"{where}[{index}].text"))
    return "".join(texts)


def objects_at(value: JsonValue, where: str) -> list[JsonObject]:
    """An array of objects; null is the empty one."""
    items = [] if value is None else list_at(value, where)
    return [object_at(item, f"{where}[{index}]") for index, item in enumerate(items)]


def image_url_of(part: JsonObject) -> str | None:
    """The URL of an ``image_url`` part of the chat protocol."""
    if part.get("type") != "image_url":
        return None
    image = part.get("image_url")
    url = image.get("url") if isinstance(image, dict) else image
    return url if isinstance(url, str) else None


def stop_word(raw: str | None, words: dict[str, str]) -> str | None:
    """The common word for an endpoint's stop reason."""
    return None if raw is None else words.get(raw, raw)
