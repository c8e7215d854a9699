"""The model endpoint's place in allowlists."""

from __future__ import annotations

import pytest

from agentcompass.activities.model_host import with_model_host
from agentcompass.contracts import EnvironmentSpec, ExecutionPlan, NetworkPolicy


def plan(policy: NetworkPolicy) -> ExecutionPlan:
    environment = EnvironmentSpec(id="docker", network_policy=policy)
    return ExecutionPlan(
        task_id="t",
        attempt=1,
        environment=environment,
        run_network_policy=policy,
        evaluation_network_policy=policy,
    )


@pytest.mark.parametrize(
    ("url", "entry"),
    [
        ("https://api.example.com/v1", "api.example.com:443"),
        ("http://model.example.com", "model.example.com:80"),
        ("http://[2001:db8::1]:8000/v1", "[2001:db8::1]:8000"),
    ],
)
def test_the_run_phase_reaches_the_model_s_endpoint_and_no_other_phase_does(url: str, entry: str) -> None:
    policy = NetworkPolicy(network_mode="allowlist", allowed_hosts=["pypi.org"])
    found = with_model_host(plan(policy), url, switches_network=True)
    assert found.run_network_policy.allowed_hosts == ["pypi.org", entry]
    assert found.baseline_network_policy == found.evaluation_network_policy == policy


def test_a_provider_that_cannot_switch_allows_it_from_the_opening_on() -> None:
    policy = NetworkPolicy(network_mode="allowlist")
    found = with_model_host(plan(policy), "https://api.example.com", switches_network=False)
    assert found.baseline_network_policy == found.run_network_policy == found.evaluation_network_policy
    assert found.run_network_policy.allowed_hosts == ["api.example.com:443"]


@pytest.mark.parametrize("mode", ["public", "no-network"])
def test_other_modes_stay_as_they_are(mode: str) -> None:
    before = plan(NetworkPolicy(network_mode=mode))
    assert with_model_host(before, "https://api.example.com", switches_network=True) == before


def test_an_endpoint_that_is_listed_already_changes_nothing() -> None:
    before = plan(NetworkPolicy(network_mode="allowlist", allowed_hosts=["api.example.com:443"]))
    assert with_model_host(before, "https://api.example.com", switches_network=True) == before
    assert with_model_host(before, "", switches_network=True) == before
