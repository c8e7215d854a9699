"""Which policies Modal can be given, and how."""

from __future__ import annotations

import pytest

from agentcompass.contracts import NetworkPolicy, UsageError
from agentcompass.plugins.environments.modal.network import NetworkSettings, network_settings

NONE = NetworkPolicy(network_mode="no-network")


def allowing(*hosts: str) -> NetworkPolicy:
    return NetworkPolicy(network_mode="allowlist", allowed_hosts=list(hosts))


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (NetworkPolicy(), NetworkSettings()),
        (NONE, NetworkSettings(restricted=True)),
        (allowing(), NetworkSettings(restricted=True)),
        (
            allowing("10.0.0.1", "*.example.com", "10.1.2.3/16", "pypi.org.:443"),
            NetworkSettings(True, ("10.0.0.1/32", "10.1.0.0/16"), ("*.example.com", "pypi.org")),
        ),
    ],
)
def test_a_policy_becomes_two_lists(policy: NetworkPolicy, expected: NetworkSettings) -> None:
    assert network_settings(policy) == expected


def test_absent_lists_restrict_nothing_and_empty_ones_everything() -> None:
    assert NetworkSettings().lists() == {}
    assert NetworkSettings(restricted=True).lists() == {
        "outbound_cidr_allowlist": [],
        "outbound_domain_allowlist": [],
    }


@pytest.mark.parametrize(
    "host",
    ["example.com:8080", "example.com:80", "10.0.0.1:443", "[2001:db8::1]:443", "2001:db8::/32"],
)
def test_what_cannot_be_enforced_is_refused(host: str) -> None:
    with pytest.raises(UsageError):
        network_settings(allowing(host))
