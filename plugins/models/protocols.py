"""The wire protocols by name."""

from __future__ import annotations

from ...contracts.request import ModelProtocol
from .anthropic import Anthropic
from .openai_chat import OpenAIChat
from .openai_responses import OpenAIResponses
from .protocol import WireProtocol

PROTOCOLS: dict[ModelProtocol, type[WireProtocol]] = {
    protocol.name: protocol for protocol in (OpenAIChat, OpenAIResponses, Anthropic)
}
