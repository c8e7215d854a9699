"""What Daytona is asked for, and what happens when it does not do it."""

from __future__ import annotations

import asyncio
import time

import pytest
from environment_providers import eventually
from planning import planned_for

from agentcompass.contracts import (
    EnvironmentHandle,
    EnvironmentLostError,
    NetworkPolicy,
    ServiceUnreachableError,
    TaskSpec,
    UsageError,
)


async def test_a_sandbox_of_an_image_has_its_resources_and_a_time_to_live(  # type: ignore[no-untyped-def]
    daytona, provider, request_for
) -> None:
    spec = {"setup": {"image": "debian:12"}, "resources": {"cpu": 1.5, "memory_mb": 1500, "storage_mb": 5000}}
    labels = {"launch": "l", "expiry": str(int(time.time()) + 3600)}
    environment = provider(auto_stop_minutes=15, target="eu")
    session = await environment.open(request_for(spec=spec, labels=labels))
    asked = daytona.seen()["asked"][0]
    await environment.close(session.handle)
    assert asked["buildInfo"] == {"dockerfileContent": "FROM debian:12\n"}
    assert (asked["cpu"], asked["memory"], asked["disk"]) == (2, 2, 5)
    assert (asked["autoStopInterval"], asked["autoDeleteInterval"], asked["target"]) == (15, 0, "eu")
    assert asked["ttlMinutes"] in (60, 61)
    assert asked["public"] is False


async def test_an_official_image_of_swe_bench_is_asked_for_with_room_for_it(  # type: ignore[no-untyped-def]
    daytona, provider, request_for
) -> None:
    image = "swebench/sweb.eval.x86_64.django_1776_django-11039:latest"
    task = TaskSpec(task_id="django__django-11039", image=image)
    params = {"path": "rows.jsonl", "folder": "/home/daytona/testbed"}
    plan = planned_for("swebench_verified", params, task, {"id": "daytona"})
    environment = provider(**plan.environment.params)
    session = await environment.open(request_for().model_copy(update={"spec": plan.environment}))
    asked = daytona.seen()["asked"][0]
    await environment.close(session.handle)
    assert asked["buildInfo"] == {"dockerfileContent": f"FROM {image}\n"}
    assert (asked["cpu"], asked["memory"], asked["disk"], asked["user"]) == (2, 8, 10, "root")
    assert session.workdir == "/home/daytona/testbed"


async def test_the_time_to_live_is_renewed_unless_it_was_set(daytona, provider, request_for) -> None:  # type: ignore[no-untyped-def]
    for changes, expected in (({}, (119, 120)), ({"lifetime_minutes": 7}, (7,))):
        environment = provider(**changes)
        session = await environment.open(request_for())
        await environment.renew(session.handle, time.time() + 7200 - 30)
        assert daytona.seen()["asked"][0]["ttlMinutes"] in expected
        await environment.close(session.handle)
    with pytest.raises(EnvironmentLostError):
        await environment.renew(session.handle, time.time() + 60)


async def test_a_sandbox_that_is_to_be_kept_is_not_deleted_by_itself(daytona, provider, request_for) -> None:  # type: ignore[no-untyped-def]
    environment = provider(lifetime_minutes=5)
    session = await environment.open(request_for(labels={"launch": "l", "keep": "true"}))
    await environment.renew(session.handle, time.time() + 60)
    asked = daytona.seen()["asked"][0]
    await environment.close(session.handle)
    assert (asked["autoDeleteInterval"], asked["ttlMinutes"]) == (-1, 0)


async def test_variables_of_an_environment_are_nowhere_in_a_listing(daytona, provider, request_for) -> None:  # type: ignore[no-untyped-def]
    environment = provider()
    session = await environment.open(request_for(env_variables={"TOKEN": "canary-4b1d"}))
    try:
        assert (await session.exec('printf %s "$TOKEN"')).stdout.text == "canary-4b1d"
        assert "canary-4b1d" not in str(daytona.seen())
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


async def test_too_many_requests_are_waited_for(daytona, provider, request_for) -> None:  # type: ignore[no-untyped-def]
    environment = provider()
    daytona.fail(busy=2)
    began = time.monotonic()
    session = await environment.open(request_for())
    assert time.monotonic() - began >= 2  # the stand-in asks for a second each time
    daytona.fail(busy=1)
    assert (await session.exec("echo once >> count; cat count")).stdout.text == "once\n"
    await environment.close(session.handle)


async def test_too_many_requests_for_too_long_are_a_service_that_is_not_there(  # type: ignore[no-untyped-def]
    daytona, provider, request_for
) -> None:
    daytona.fail(busy=100)
    with pytest.raises(ServiceUnreachableError, match="too busy: Rate limit exceeded"):
        await provider(request_timeout_seconds=1.5).open(request_for())
    daytona.fail(busy=0)


async def test_quota_that_others_hold_is_waited_for(daytona, provider, request_for) -> None:  # type: ignore[no-untyped-def]
    environment = provider()
    daytona.fail(quota=1)
    first = await environment.open(request_for())
    second = asyncio.create_task(environment.open(request_for()))
    before = len(daytona.seen()["requests"])

    async def refused() -> bool:
        return "POST /api/sandbox" in daytona.seen()["requests"][before:]

    await eventually(refused, "the second sandbox is refused")
    await environment.close(first.handle)
    session = await asyncio.wait_for(second, 60)
    await environment.close(session.handle)


async def test_quota_that_never_comes_free_says_so(daytona, provider, request_for) -> None:  # type: ignore[no-untyped-def]
    daytona.fail(quota=0)
    with pytest.raises(ServiceUnreachableError, match="no quota left at Daytona: Total CPU limit exceeded"):
        await provider(open_timeout_seconds=1).open(request_for())


@pytest.mark.parametrize(
    ("spec", "changes", "message"),
    [
        ({"setup": {"image": "debian:12"}, "resources": {"cpu": 64}}, {}, "maximum allowed per sandbox"),
        ({"resources": {"cpu": 1}}, {}, "cpu need an image"),
        ({"setup": {"build_context": "/srv/task"}}, {}, "builds no folder"),
        ({}, {"snapshot": "never-made"}, "Snapshot never-made not found"),
    ],
)
async def test_what_daytona_cannot_do_is_a_mistake_in_the_request(  # type: ignore[no-untyped-def]
    provider, request_for, spec, changes, message
) -> None:
    with pytest.raises(UsageError, match=message):
        await provider(**changes).open(request_for(spec=spec))


async def test_a_creation_whose_answer_is_lost_makes_one_sandbox(daytona, provider, request_for) -> None:  # type: ignore[no-untyped-def]
    environment = provider()
    daytona.fail(lost_answers=1)
    session = await environment.open(request_for())
    assert len(daytona.seen()["sandboxes"]) == 1
    await environment.close(session.handle)


async def test_a_sandbox_that_breaks_while_it_is_made_is_named_and_removed(  # type: ignore[no-untyped-def]
    daytona, provider, request_for
) -> None:
    daytona.fail(broken_creations=1)
    with pytest.raises(OSError, match="is error: no runner is left"):
        await provider().open(request_for())


async def test_a_broken_sandbox_of_an_earlier_try_is_replaced(daytona, provider, request_for) -> None:  # type: ignore[no-untyped-def]
    environment, request = provider(), request_for()
    daytona.fail(hold_creations=True, broken_creations=1)
    creation = asyncio.create_task(environment.open(request))
    await eventually(lambda: made(daytona), "the sandbox is being made")
    other = asyncio.create_task(provider().open(request))
    daytona.fail(hold_creations=False)
    results = await asyncio.gather(creation, other, return_exceptions=True)
    session = next(result for result in results if not isinstance(result, BaseException))
    assert (await session.exec("echo new")).stdout.text == "new\n"
    await environment.close(session.handle)


async def test_a_sandbox_that_never_starts_is_removed_and_others_go_on(
    daytona, provider, request_for
) -> None:  # type: ignore[no-untyped-def]
    environment = provider()
    session = await environment.open(request_for())
    daytona.fail(hold_creations=True)
    with pytest.raises(TimeoutError, match=r"still creating after 1 s \(open_timeout_seconds\)"):
        await provider(open_timeout_seconds=1).open(request_for())
    assert (await session.exec("echo on")).stdout.text == "on\n"
    daytona.fail(hold_creations=False)
    await environment.close(session.handle)


async def test_an_opening_that_is_cancelled_leaves_nothing(daytona, provider, request_for) -> None:  # type: ignore[no-untyped-def]
    daytona.fail(hold_creations=True)
    opening = asyncio.create_task(provider().open(request_for()))
    await eventually(lambda: made(daytona), "the sandbox is being made")
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    assert daytona.seen()["sandboxes"] == []


async def test_a_sandbox_of_somebody_else_is_neither_taken_nor_removed(
    daytona, provider, request_for
) -> None:  # type: ignore[no-untyped-def]
    environment, request = provider(), request_for()
    api = environment._api
    from daytona_api_client import CreateSandbox

    strangers = api.sandboxes.create_sandbox(CreateSandbox(name=request.environment_id, labels={"mine": "1"}))
    try:
        with pytest.raises(UsageError, match="somebody else's sandbox"):
            await environment.open(request)
        await environment.close(EnvironmentHandle(provider="daytona", id=request.environment_id))
        assert [found["id"] for found in daytona.seen()["sandboxes"]] == [strangers.id]
        assert await environment.list_environments() == []
    finally:
        api.sandboxes.delete_sandbox(strangers.id)
        await eventually(lambda: nothing_left(daytona), "the sandbox is gone")


async def test_a_listing_goes_over_all_pages(daytona, provider, request_for) -> None:  # type: ignore[no-untyped-def]
    environment = provider()
    daytona.fail(page=1)
    sessions = [await environment.open(request_for()) for _ in range(3)]
    found = await environment.list_environments({"launch": "daytona-test"})
    assert [record.handle for record in found] == [session.handle for session in sessions]
    await asyncio.gather(*(environment.close(session.handle) for session in sessions))


async def test_a_key_that_is_refused_says_so_without_naming_it(provider, request_for, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setenv("OTHER_KEY", "canary-0d2e")
    with pytest.raises(UsageError, match="refuses the key: Invalid credentials") as caught:
        await provider(api_key_variable="OTHER_KEY").preflight(request_for().spec)
    assert "canary-0d2e" not in str(caught.value)


async def test_a_missing_key_names_its_variable(provider, request_for) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(UsageError, match="in the variable NO_SUCH_KEY"):
        await provider(api_key_variable="NO_SUCH_KEY").preflight(request_for().spec)


async def test_an_address_where_nobody_listens_is_named(provider, request_for) -> None:  # type: ignore[no-untyped-def]
    environment = provider(api_url="http://127.0.0.1:9", request_timeout_seconds=0.5)
    with pytest.raises(ServiceUnreachableError, match=r"http://127\.0\.0\.1:9 does not answer"):
        await environment.preflight(request_for().spec)


async def test_network_policies_hold_from_the_beginning_and_are_switched(
    daytona, provider, request_for
) -> None:  # type: ignore[no-untyped-def]
    environment = provider()
    policy = NetworkPolicy(network_mode="allowlist", allowed_hosts=["10.1.0.0/16", "192.0.2.7"])
    session = await environment.open(request_for(network_policy=policy))

    def settings() -> tuple[object, ...]:
        found = daytona.seen()["sandboxes"][0]
        return found["networkBlockAll"], found.get("networkAllowList"), found.get("domainAllowList")

    assert settings() == (False, "10.1.0.0/16,192.0.2.7/32", None)
    for wanted, expected in [
        (NetworkPolicy(network_mode="no-network"), (True, None, None)),
        (
            NetworkPolicy(network_mode="allowlist", allowed_hosts=["pypi.org", "api.example.com:443"]),
            (False, None, "pypi.org,api.example.com"),
        ),
        (NetworkPolicy(network_mode="allowlist"), (True, None, None)),
        (NetworkPolicy(), (False, None, None)),
    ]:
        await session.set_network_policy(wanted)
        assert settings() == expected
    await environment.close(session.handle)


async def made(daytona) -> bool:  # type: ignore[no-untyped-def]
    """Whether there is a sandbox."""
    return bool(daytona.seen()["sandboxes"])


async def nothing_left(daytona) -> bool:  # type: ignore[no-untyped-def]
    """Whether there is none."""
    return not await made(daytona)
