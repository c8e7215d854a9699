"""Which protocol is spoken, and where calls are posted to."""

from __future__ import annotations

import pytest

from agentcompass.contracts import ConfigurationError, ModelProtocol, ModelSpec
from agentcompass.plugins.models.endpoint import base_url_of, choose_protocol, endpoint_url, is_loopback

CHAT, RESPONSES, ANTHROPIC = (
    ModelProtocol.OPENAI_CHAT,
    ModelProtocol.OPENAI_RESPONSES,
    ModelProtocol.ANTHROPIC,
)


@pytest.mark.parametrize(
    ("spec", "protocol"),
    [
        (ModelSpec(id="gpt-5"), CHAT),
        (ModelSpec(id="claude-sonnet-4-5"), ANTHROPIC),
        (ModelSpec(id="Claude-Opus"), ANTHROPIC),
        (ModelSpec(id="claude-sonnet-4-5", base_url="https://openrouter.ai/api/v1"), CHAT),
        (ModelSpec(id="m", base_url="https://api.anthropic.com/v1"), ANTHROPIC),
        (ModelSpec(id="claude-x", api_protocol="openai-chat"), CHAT),
        (ModelSpec(id="m", api_protocol="auto"), CHAT),
        (ModelSpec(id="m", api_protocol=[]), CHAT),
        (ModelSpec(id="m", api_protocol=["openai-responses", "openai-chat"]), RESPONSES),
    ],
)
def test_the_protocol_is_the_preferred_one_else_guessed(spec: ModelSpec, protocol: ModelProtocol) -> None:
    assert choose_protocol(spec) is protocol


def test_the_first_supported_protocol_of_a_list_is_taken() -> None:
    spec = ModelSpec(id="m", api_protocol=["openai-responses", "anthropic"])
    assert choose_protocol(spec, supported={CHAT, ANTHROPIC}) is ANTHROPIC


def test_a_model_without_a_supported_protocol_is_refused() -> None:
    spec = ModelSpec(id="m", api_protocol="anthropic")
    with pytest.raises(ConfigurationError, match="model 'm' speaks anthropic; supported here: openai-chat"):
        choose_protocol(spec, supported={CHAT})


@pytest.mark.parametrize(
    ("base_url", "protocol", "url"),
    [
        ("", CHAT, "https://api.openai.com/v1/chat/completions"),
        ("", RESPONSES, "https://api.openai.com/v1/responses"),
        ("", ANTHROPIC, "https://api.anthropic.com/v1/messages"),
        ("http://127.0.0.1:8000/v1", CHAT, "http://127.0.0.1:8000/v1/chat/completions"),
        ("http://127.0.0.1:8000", CHAT, "http://127.0.0.1:8000/v1/chat/completions"),
        ("http://127.0.0.1:8000/", RESPONSES, "http://127.0.0.1:8000/v1/responses"),
        ("https://openrouter.ai/api/v1", CHAT, "https://openrouter.ai/api/v1/chat/completions"),
        (
            "https://open.bigmodel.cn/api/paas/v4",
            CHAT,
            "https://open.bigmodel.cn/api/paas/v4/chat/completions",
        ),
        ("https://api.perplexity.ai/chat/completions", CHAT, "https://api.perplexity.ai/chat/completions"),
        ("https://api.anthropic.com", ANTHROPIC, "https://api.anthropic.com/v1/messages"),
        ("https://api.anthropic.com/v1", ANTHROPIC, "https://api.anthropic.com/v1/messages"),
        ("https://api.deepseek.com/anthropic", ANTHROPIC, "https://api.deepseek.com/anthropic/v1/messages"),
        ("http://h/v1/messages", ANTHROPIC, "http://h/v1/messages"),
        (
            "https://x.openai.azure.com/openai/deployments/d?api-version=2024-10-21",
            CHAT,
            "https://x.openai.azure.com/openai/deployments/d/chat/completions?api-version=2024-10-21",
        ),
    ],
)
def test_calls_go_where_users_of_these_apis_expect(base_url: str, protocol: ModelProtocol, url: str) -> None:
    spec = ModelSpec(id="m", base_url=base_url)
    assert str(endpoint_url(base_url_of(spec, protocol), protocol)) == url


@pytest.mark.parametrize("base_url", ["http://h:99999/v1", "http://[::1/v1", f"http://{'a' * 64}.com/v1"])
def test_an_unusable_base_url_is_a_configuration_error(base_url: str) -> None:
    with pytest.raises(ConfigurationError, match=r"model\.base_url"):
        endpoint_url(base_url, CHAT)


def test_loopback_is_recognised_in_all_its_spellings() -> None:
    assert all(map(is_loopback, ["localhost", "api.localhost", "127.0.0.1", "127.8.9.1", "::1"]))
    assert not any(map(is_loopback, ["localhost.example.com", "10.0.0.1", "api.openai.com", "::2"]))
