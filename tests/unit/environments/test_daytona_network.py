"""Which policies Daytona can be given, and how."""

from __future__ import annotations

import pytest

from agentcompass.contracts import NetworkPolicy, UsageError
from agentcompass.plugins.environments.daytona.network import NetworkSettings, network_settings


def allowing(*hosts: str) -> NetworkPolicy:
    return NetworkPolicy(network_mode="allowlist", allowed_hosts=list(hosts))


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (NetworkPolicy(), NetworkSettings()),
        (NetworkPolicy(network_mode="no-network"), NetworkSettings(block_all=True)),
        (allowing(), NetworkSettings(block_all=True)),
        (allowing("10.0.0.1", "10.1.2.3/16"), NetworkSettings(networks="10.0.0.1/32,10.1.0.0/16")),
        (allowing("*.example.com", "pypi.org.:443"), NetworkSettings(domains="*.example.com,pypi.org")),
    ],
)
def test_a_policy_becomes_one_setting(policy: NetworkPolicy, expected: NetworkSettings) -> None:
    assert network_settings(policy) == expected


@pytest.mark.parametrize(
    "hosts",
    [
        ("example.com:8080",),
        ("10.0.0.1:443",),
        ("[2001:db8::1]:443",),
        ("2001:db8::/32",),
        ("10.0.0.1", "example.com"),
        tuple(f"10.0.0.{number}" for number in range(11)),
    ],
)
def test_what_cannot_be_enforced_is_refused(hosts: tuple[str, ...]) -> None:
    with pytest.raises(UsageError):
        network_settings(allowing(*hosts))
