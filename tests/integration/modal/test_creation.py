"""What Modal is asked for, and what happens when it does not do it."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys

import pytest
from environment_providers import eventually
from fake_modal import TOKEN

from agentcompass.contracts import (
    EnvironmentHandle,
    EnvironmentLostError,
    NetworkPolicy,
    ServiceUnreachableError,
    UsageError,
)
from agentcompass.plugins.environments.modal import creation
from agentcompass.plugins.environments.modal import provider as provider_module

NO_NETWORK = NetworkPolicy(network_mode="no-network")


async def test_a_sandbox_has_its_resources_and_a_time_to_live(modal, provider, request_for) -> None:  # type: ignore[no-untyped-def]
    spec = {"setup": {"image": "debian:12"}, "resources": {"cpu": 1.5, "memory_mb": 1500}}
    environment = provider(idle_timeout_minutes=15, lifetime_minutes=90, region="eu-west", ports=[8080])
    session = await environment.open(request_for(spec=spec))
    [asked] = modal.seen()["asked"]
    endpoints = await session.endpoint(8080), await session.endpoint(8081)
    await environment.close(session.handle)
    resources = asked["resources"]
    assert (resources["milliCpu"], resources["milliCpuMax"]) == (1500, 1500)
    assert (resources["memoryMb"], resources["memoryMbMax"]) == (1500, 1500)
    assert (asked["timeoutSecs"], asked["idleTimeoutSecs"]) == (5400, 900)
    assert asked["schedulerPlacement"] == {"regions": ["eu-west"]}
    assert endpoints[0].startswith("https://8080-") and endpoints[1] is None


async def test_a_sandbox_lives_for_a_day_at_most_and_is_ended_when_idle(modal, provider, request_for) -> None:  # type: ignore[no-untyped-def]
    environment = provider()
    session = await environment.open(request_for())
    [asked] = modal.seen()["asked"]
    await environment.close(session.handle)
    assert (asked["timeoutSecs"], asked["idleTimeoutSecs"]) == (24 * 3600, 3600)


async def test_a_sandbox_that_is_to_be_kept_is_not_ended_when_idle(modal, provider, request_for) -> None:  # type: ignore[no-untyped-def]
    environment = provider()
    session = await environment.open(request_for(labels={"launch": "l", "keep": "true"}))
    [asked] = modal.seen()["asked"]
    await environment.close(session.handle)
    assert "idleTimeoutSecs" not in asked


async def test_gpus_are_asked_for_by_type_and_number(modal, provider, request_for) -> None:  # type: ignore[no-untyped-def]
    environment = provider(gpu_type="T4")
    request = request_for(spec={"resources": {"gpu": 2}})
    session = await environment.open(request)
    try:
        [asked] = modal.seen()["asked"]
        assert asked["resources"]["gpuConfig"] == {"count": 2, "gpuType": "T4"}
        assert (await session.exec("echo on")).stdout.text == "on\n"
        again = await environment.open(request)
        assert again.handle == session.handle
        assert [record.handle for record in await environment.list_environments()] == [session.handle]
    finally:
        await environment.close(session.handle)
    with pytest.raises(EnvironmentLostError):
        await environment.attach(session.handle)


async def test_gpus_that_are_never_free_are_waited_for_and_given_up(modal, provider, request_for) -> None:  # type: ignore[no-untyped-def]
    modal.fail(hold_creations=True)
    with pytest.raises(TimeoutError, match=r"waits for GPUs after 1 s \(open_timeout_seconds\)"):
        await provider(open_timeout_seconds=1).open(request_for(spec={"resources": {"gpu": 1}}))
    await eventually(lambda: nothing_left(modal), "what was asked for is taken back")


async def test_secrets_of_an_environment_are_nowhere_at_modal(modal, provider, request_for) -> None:  # type: ignore[no-untyped-def]
    environment = provider()
    session = await environment.open(request_for(env_variables={"TOKEN": "canary-4b1d"}))
    try:
        assert (await session.exec('printf %s "$TOKEN"')).stdout.text == "canary-4b1d"
        assert "canary-4b1d" not in str(modal.seen())
        inside = await session.exec(
            "cat /proc/[0-9]*/environ | tr '\\0' '\\n' | grep -a -e [a]k-fake -e [a]s-fake"
        )
        assert inside.stdout.text == ""
    finally:
        await environment.close(session.handle)


async def test_a_work_directory_that_is_asked_for_is_made_and_found_again(provider, request_for) -> None:  # type: ignore[no-untyped-def]
    environment = provider()
    session = await environment.open(request_for(spec={"setup": {"workdir": "/home/some/where"}}))
    try:
        again = await environment.attach(session.handle)
        assert (await again.exec("pwd -P")).stdout.text == "/home/some/where\n"
    finally:
        await environment.close(session.handle)


@pytest.mark.parametrize("fault", ["busy", "throttled"])
async def test_too_many_requests_are_waited_for(modal, provider, request_for, fault) -> None:  # type: ignore[no-untyped-def]
    environment = provider()
    modal.fail(**{fault: 2})
    session = await environment.open(request_for())
    assert (await session.exec("echo on")).stdout.text == "on\n"
    await environment.close(session.handle)


@pytest.mark.parametrize("fault", ["busy", "throttled"])
async def test_too_many_requests_for_too_long_are_a_service_that_is_not_there(  # type: ignore[no-untyped-def]
    modal, provider, request_for, fault
) -> None:
    modal.fail(**{fault: 1000})
    with pytest.raises(
        ServiceUnreachableError, match=r"too busy: Rate limit exceeded|does not answer within"
    ):
        await provider(request_timeout_seconds=1.5).open(request_for())
    modal.fail(**{fault: 0})


async def test_quota_that_others_hold_is_waited_for(modal, provider, request_for, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(creation, "_QUOTA_PAUSE_SECONDS", 0.1)
    environment = provider()
    modal.fail(quota=1)
    first = await environment.open(request_for())
    second = asyncio.create_task(environment.open(request_for()))
    before = len(modal.seen()["requests"])

    async def refused() -> bool:
        return "SandboxCreateV2" in modal.seen()["requests"][before:]

    await eventually(refused, "the second sandbox is refused")
    await environment.close(first.handle)
    session = await asyncio.wait_for(second, 60)
    await environment.close(session.handle)


async def test_quota_that_never_comes_free_says_so(modal, provider, request_for) -> None:  # type: ignore[no-untyped-def]
    modal.fail(quota=0)
    with pytest.raises(ServiceUnreachableError, match="no room at Modal: Sandbox limit reached"):
        await provider(open_timeout_seconds=1).open(request_for())


async def test_what_modal_cannot_do_is_a_mistake_in_the_request(provider, request_for) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(UsageError, match="exceeds the maximum of 64 cores"):
        await provider().open(request_for(spec={"resources": {"cpu": 65}}))


async def test_a_creation_whose_answer_is_lost_makes_one_sandbox(modal, provider, request_for) -> None:  # type: ignore[no-untyped-def]
    environment = provider()
    # More often than the SDK repeats a call by itself.
    modal.fail(lost_answers=6)
    session = await environment.open(request_for())
    assert len(modal.seen()["sandboxes"]) == 1
    await environment.close(session.handle)


async def test_a_sandbox_that_ends_while_it_is_made_is_named(modal, provider, request_for) -> None:  # type: ignore[no-untyped-def]
    modal.fail(broken_creations=1)
    with pytest.raises(OSError, match="has ended before it was up"):
        await provider().open(request_for())


async def test_a_broken_sandbox_of_an_earlier_try_is_replaced(modal, provider, request_for) -> None:  # type: ignore[no-untyped-def]
    environment, request = provider(), request_for()
    modal.fail(hold_creations=True)
    first = asyncio.create_task(environment.open(request))
    await eventually(lambda: made(modal), "the sandbox is being made")
    other = asyncio.create_task(provider().open(request))
    before = len(modal.seen()["requests"])

    async def found() -> bool:
        return "SandboxGetFromName" in modal.seen()["requests"][before:]

    await eventually(found, "the second opening has found it")
    modal.end_sandbox(modal.seen()["sandboxes"][0])
    modal.fail(hold_creations=False)
    results = await asyncio.gather(first, other, return_exceptions=True)
    assert isinstance(results[0], OSError)
    assert (await results[1].exec("echo new")).stdout.text == "new\n"
    await environment.close(results[1].handle)


async def test_a_sandbox_that_never_comes_up_is_removed_and_others_go_on(
    modal, provider, request_for
) -> None:  # type: ignore[no-untyped-def]
    environment = provider()
    session = await environment.open(request_for())
    modal.fail(hold_creations=True)
    with pytest.raises(TimeoutError, match=r"is not up after 1 s \(open_timeout_seconds\)"):
        await provider(open_timeout_seconds=1).open(request_for())
    assert (await session.exec("echo on")).stdout.text == "on\n"
    assert modal.seen()["sandboxes"] == [session.handle.data["sandbox"]]
    modal.fail(hold_creations=False)
    await environment.close(session.handle)


async def test_an_opening_that_is_cancelled_leaves_nothing(modal, provider, request_for) -> None:  # type: ignore[no-untyped-def]
    modal.fail(hold_creations=True)
    opening = asyncio.create_task(provider().open(request_for()))
    await eventually(lambda: made(modal), "the sandbox is being made")
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    assert modal.seen()["sandboxes"] == []


async def test_a_removal_that_hangs_is_reported(modal, provider, request_for, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    environment = provider()
    session = await environment.open(request_for())
    modal.fail(hold_removals=True)
    with monkeypatch.context() as changed:
        changed.setattr(provider_module, "_REMOVAL_SECONDS", 0.5)
        with pytest.raises(TimeoutError, match=r"has not removed the sandbox sb-\w+ after 0\.5 s"):
            await environment.close(session.handle)
    modal.fail(hold_removals=False)
    await environment.close(session.handle)


async def test_a_sandbox_of_somebody_else_is_neither_taken_nor_removed(modal, provider, request_for) -> None:  # type: ignore[no-untyped-def]
    environment, request = provider(), request_for()
    session = await environment.open(request)
    await session._facts.sandbox.set_tags.aio({"mine": "1"})
    with pytest.raises(UsageError, match="somebody else's sandbox"):
        await environment.open(request)
    await environment.close(EnvironmentHandle(provider="modal", id=request.environment_id))
    assert modal.seen()["sandboxes"] == [session.handle.data["sandbox"]]
    assert await environment.list_environments() == []
    await session._facts.sandbox.terminate.aio()
    await eventually(lambda: nothing_left(modal), "the sandbox is gone")


async def test_a_listing_goes_over_all_pages(modal, provider, request_for) -> None:  # type: ignore[no-untyped-def]
    environment = provider()
    modal.fail(page=1)
    sessions = [await environment.open(request_for()) for _ in range(3)]
    found = await environment.list_environments({"launch": "modal-test"})
    assert {record.handle.id for record in found} == {session.handle.id for session in sessions}
    assert all(record.created_at for record in found)
    await asyncio.gather(*(environment.close(session.handle) for session in sessions))


async def test_nothing_is_listed_where_there_is_no_app_yet(provider) -> None:  # type: ignore[no-untyped-def]
    assert await provider(app_name="never-used").list_environments() == []


async def test_a_token_that_is_refused_says_so_without_naming_it(provider, request_for, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setenv("OTHER_SECRET", "canary-0d2e")
    with pytest.raises(UsageError, match="refuses the token: Token validation failed") as caught:
        await provider(token_secret_variable="OTHER_SECRET").preflight(request_for().spec)
    assert "canary-0d2e" not in str(caught.value)


async def test_a_missing_token_names_its_variables(provider, request_for, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    changes = {"token_id_variable": "NO_SUCH_ID", "token_secret_variable": "NO_SUCH_SECRET"}
    with pytest.raises(UsageError, match="in the variables NO_SUCH_ID and NO_SUCH_SECRET"):
        await provider(**changes).preflight(request_for().spec)
    monkeypatch.setenv("NO_SUCH_ID", "ak-1")
    with pytest.raises(UsageError, match=r"in the variables NO_SUCH_SECRET$"):
        await provider(**changes).preflight(request_for().spec)


def test_the_token_of_the_sdk_s_own_file_is_used_when_no_variable_is_set(modal, tmp_path) -> None:  # type: ignore[no-untyped-def]
    ids = "\n".join(
        f'{key} = "{value}"' for key, value in zip(("token_id", "token_secret"), TOKEN.values(), strict=True)
    )
    (tmp_path / "modal.toml").write_text(f"[mine]\nactive = true\n{ids}\n")
    program = (
        "import asyncio\n"
        "from agentcompass.contracts import EnvironmentSpec\n"
        "from agentcompass.plugins.environments.modal import Modal, ModalParams\n"
        "asyncio.run(Modal(ModalParams()).preflight(EnvironmentSpec(id='modal')))\n"
        "Other = ModalParams(token_id_variable='OTHER_ID', token_secret_variable='OTHER_SECRET')\n"
        "asyncio.run(Modal(Other).preflight(EnvironmentSpec(id='modal')))\n"
    )
    env = {name: value for name, value in os.environ.items() if not name.startswith("MODAL_TOKEN")}
    env |= {"MODAL_CONFIG_PATH": str(tmp_path / "modal.toml"), "MODAL_SERVER_URL": modal.url}
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=env, check=False
    )
    # Variables of somebody's own that are not set are a mistake, not a reason to be somebody else.
    assert "in the variables OTHER_ID and OTHER_SECRET" in ran.stderr.splitlines()[-1]
    assert "line 4" not in ran.stderr


async def test_an_environment_that_is_not_there_is_named_at_preflight(provider, request_for) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(UsageError, match="no environment 'elsewhere'"):
        await provider(modal_environment="elsewhere").preflight(request_for().spec)
    await provider().preflight(request_for().spec)


async def test_an_address_where_nobody_listens_is_told(provider, request_for, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    environment = provider(request_timeout_seconds=0.5)
    monkeypatch.setenv("MODAL_SERVER_URL", "http://127.0.0.1:9")
    with pytest.raises(ServiceUnreachableError, match=r"http://127\.0\.0\.1:9 does not answer"):
        await environment.preflight(request_for().spec)


def test_without_the_sdk_the_extra_is_named() -> None:
    program = (
        "import sys, asyncio\n"
        "sys.modules['modal'] = None\n"
        "from agentcompass.contracts import EnvironmentSpec\n"
        "from agentcompass.plugins.environments.modal import Modal, ModalParams\n"
        "asyncio.run(Modal(ModalParams()).preflight(EnvironmentSpec(id='modal')))\n"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert "pip install -e '.[modal]'" in ran.stderr.splitlines()[-1]


async def test_network_policies_hold_from_the_beginning_and_are_switched(
    modal, provider, request_for
) -> None:  # type: ignore[no-untyped-def]
    environment = provider()
    policy = NetworkPolicy(network_mode="allowlist", allowed_hosts=["10.1.0.0/16", "pypi.org"])
    session = await environment.open(request_for(network_policy=policy))
    allowed = {"networkAccessType": "ALLOWLIST"}
    both = {**allowed, "allowedCidrs": ["10.1.0.0/16"], "allowedDomains": ["pypi.org"]}
    assert modal.seen()["network"] == [both]
    for wanted, expected in [
        (NO_NETWORK, allowed),
        (
            NetworkPolicy(network_mode="allowlist", allowed_hosts=["*.example.com", "192.0.2.7"]),
            {**allowed, "allowedCidrs": ["192.0.2.7/32"], "allowedDomains": ["*.example.com"]},
        ),
        (NetworkPolicy(network_mode="allowlist"), allowed),
        (NetworkPolicy(), {"networkAccessType": "OPEN"}),
    ]:
        await session.set_network_policy(wanted)
        assert modal.seen()["network"] == [expected]
    await environment.close(session.handle)


async def test_a_network_that_is_never_switched_can_be_none_at_all(modal, provider, request_for) -> None:  # type: ignore[no-untyped-def]
    environment = provider(network_switching=False, ports=[8080])
    assert not environment.capabilities.switches_network
    request = request_for(network_policy=NO_NETWORK)
    session = await environment.open(request)
    assert modal.seen()["network"] == [{"networkAccessType": "BLOCKED"}]
    assert (await environment.open(request)).handle == session.handle
    await environment.close(session.handle)


async def made(modal) -> bool:  # type: ignore[no-untyped-def]
    """Whether there is a sandbox."""
    return bool(modal.seen()["sandboxes"])


async def nothing_left(modal) -> bool:  # type: ignore[no-untyped-def]
    """Whether there is none."""
    return not await made(modal)
