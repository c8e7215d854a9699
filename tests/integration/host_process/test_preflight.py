"""What host_process refuses before anything is opened."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from environment_providers import ProviderUnderTest

from agentcompass.contracts import EnvironmentSession, EnvironmentSpec, NetworkPolicy, UsageError
from agentcompass.plugins.environments.host_process import HostProcess, HostProcessParams


def spec(**values: Any) -> EnvironmentSpec:
    """A specification with these settings."""
    return EnvironmentSpec.model_validate({"id": "host_process"} | values)


async def test_a_plain_specification_is_accepted(host: HostProcess) -> None:
    await host.preflight(spec(network_policy="public"))


@pytest.mark.parametrize("name", ["network_policy", "run_network_policy", "verifier_network_policy"])
@pytest.mark.parametrize("mode", ["no-network", "allowlist"])
async def test_a_network_policy_that_cannot_be_enforced_is_refused(
    host: HostProcess, name: str, mode: str
) -> None:
    with pytest.raises(UsageError, match=f"cannot enforce {name} '{mode}'.* such as docker"):
        await host.preflight(spec(**{name: mode}))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"resources": {"cpu": 2, "memory_mb": 512}}, "cannot limit or promise cpu, memory_mb"),
        ({"setup": {"image": "python:3.12"}}, r"has no setup\.image"),
        ({"setup": {"workdir": "/app"}}, r"has no setup\.workdir"),
    ],
)
async def test_what_only_a_sandbox_has_is_refused(
    host: HostProcess, values: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        await host.preflight(spec(**values))


async def test_a_root_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    host = HostProcess(HostProcessParams(root=tmp_path / "file" / "root"))
    with pytest.raises(UsageError, match="cannot make its folder"):
        await host.preflight(spec())


async def test_opening_with_a_policy_that_cannot_be_enforced_is_refused(
    host: HostProcess, described: ProviderUnderTest
) -> None:
    request = described.open_request(network_policy=NetworkPolicy.model_validate("no-network"))
    with pytest.raises(UsageError, match="cannot enforce"):
        await host.open(request)


async def test_a_command_for_another_user_is_refused(session: EnvironmentSession) -> None:
    with pytest.raises(UsageError, match="no-such-user"):
        await session.exec("true", user="no-such-user")


async def test_a_malformed_variable_is_refused_without_showing_its_value(session: EnvironmentSession) -> None:
    with pytest.raises(ValueError, match="BAD=NAME") as raised:
        await session.exec("true", env={"BAD=NAME": "canary-9b"})
    assert "canary-9b" not in str(raised.value)


def test_it_promises_no_isolation() -> None:
    capabilities = HostProcess.capabilities
    assert [mode.value for mode in capabilities.network_modes] == ["public"]
    assert (capabilities.isolated, capabilities.host_bound, capabilities.resources) == (False, True, [])
