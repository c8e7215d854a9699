"""The model endpoint's host is always allowed in the run phase."""

from __future__ import annotations

import pytest

from agentcompass.activities.model_access import endpoint_entry, with_model_access
from agentcompass.contracts.environment import EnvironmentCapabilities
from agentcompass.contracts.network import NetworkMode, NetworkPolicy
from agentcompass.contracts.request import ModelSpec

EVERYTHING = EnvironmentCapabilities(network_modes=list(NetworkMode))
MODEL = ModelSpec(id="m", base_url="https://api.example.com/v1")


def policy(mode: str, *hosts: str) -> NetworkPolicy:
    return NetworkPolicy(network_mode=NetworkMode(mode), allowed_hosts=list(hosts))


@pytest.mark.parametrize(
    ("base_url", "entry"),
    [
        ("https://api.example.com/v1", "api.example.com:443"),
        ("http://10.0.0.7/v1", "10.0.0.7:80"),
        ("http://models:8000", "models:8000"),
        ("http://[2001:db8::1]:9000/v1", "[2001:db8::1]:9000"),
        ("http://[2001:db8::1]/v1", "[2001:db8::1]:80"),
    ],
)
def test_an_endpoint_is_a_host_with_its_port(base_url: str, entry: str) -> None:
    assert endpoint_entry(ModelSpec(id="m", base_url=base_url)) == entry
    found = with_model_access(policy("no-network"), ModelSpec(id="m", base_url=base_url), EVERYTHING)
    assert NetworkPolicy.model_validate(found.model_dump()) == policy("allowlist", entry)


def test_a_model_without_a_base_url_is_its_vendor_s() -> None:
    assert endpoint_entry(ModelSpec(id="claude-x", api_key="env:KEY")) == "api.anthropic.com:443"
    assert endpoint_entry(ModelSpec(id="gpt-x", api_key="env:KEY")) == "api.openai.com:443"


@pytest.mark.parametrize("model", [ModelSpec(id="none"), ModelSpec(id="m", base_url=f"http://{'x' * 70}/v1")])
def test_without_a_usable_endpoint_nothing_is_added(model: ModelSpec) -> None:
    assert with_model_access(policy("no-network"), model, EVERYTHING) == policy("no-network")


def test_what_is_open_already_stays_as_it_is() -> None:
    there = policy("allowlist", "api.example.com:443")
    for before in (policy("public"), there):
        assert with_model_access(before, MODEL, EVERYTHING) == before


def test_a_provider_without_allowlists_stays_closed() -> None:
    closed = EnvironmentCapabilities(network_modes=[NetworkMode.NO_NETWORK])
    assert with_model_access(policy("no-network"), MODEL, closed) == policy("no-network")
