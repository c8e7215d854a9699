"""Services of a compose file beside the sandbox, on a real engine."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from compose_services import WEB, belongings, in_service, service_container, services_request
from docker_engine import IMAGE
from environment_providers import ProviderUnderTest, eventually

from agentcompass.contracts import EnvironmentSpec, NetworkPolicy, UsageError
from agentcompass.plugins.environments.docker.session import DockerSession

UNDER_TEST = ProviderUnderTest(
    target="agentcompass.plugins.environments.docker:Docker",
    params={"image": IMAGE, "pull": "never", "grace_seconds": 0.2},
    spec=EnvironmentSpec(id="docker"),
)
FETCH = "wget -q -O - http://web:8080/"


@pytest.fixture
def with_services(provider, tmp_path: Path):  # type: ignore[no-untyped-def]
    """``async with with_services({name: service}, …) as session``; closed afterwards."""

    @contextlib.asynccontextmanager
    async def open_one(services: dict[str, Any], **more: Any) -> AsyncIterator[DockerSession]:
        environment = provider()
        session = await environment.open(services_request(tmp_path, services, **more))
        try:
            yield session
        finally:
            await environment.close(session.handle)

    return open_one


async def test_services_are_found_by_their_names_and_leave_nothing(provider, client, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    services = {"web": WEB | {"container_name": "the-site", "volumes": ["data:/data", "/scratch"]}}
    request = services_request(tmp_path, services, top={"volumes": {"data": None}})
    environment = provider()
    session = await environment.open(request)
    for name in ("web", "the-site"):
        assert (await session.exec(f"wget -q -O - http://{name}:8080/")).stdout.text == "served by web\n"
    assert len(belongings(client, request.environment_id)) == 4  # two containers, a network, a volume
    assert [record.handle for record in await environment.list_environments({"launch": "docker-test"})].count(
        session.handle
    ) == 1
    await environment.close(session.handle)
    assert belongings(client, request.environment_id) == []
    await environment.close(session.handle)


async def test_a_service_has_no_rights_beyond_those_of_a_sandbox(with_services, client) -> None:  # type: ignore[no-untyped-def]
    async with with_services({"web": WEB | {"cap_drop": ["SETUID"]}}) as session:
        host = service_container(client, session.handle.id, "web").attrs["HostConfig"]
        assert (host["Privileged"], host["CapDrop"], host["SecurityOpt"]) == (
            False,
            ["ALL"],
            ["no-new-privileges"],
        )
        assert not {"CAP_NET_RAW", "NET_RAW", "SETUID"} & set(host["CapAdd"])
        assert (host["PidMode"], host["PidsLimit"], host["PortBindings"]) == ("", 4096, None)
        assert host["IpcMode"] == "private"


async def test_limits_of_the_task_are_those_of_main_and_services_have_their_own(
    with_services, client
) -> None:  # type: ignore[no-untyped-def]
    services = {"main": {"mem_limit": "999m", "cpus": 0.5}, "web": WEB | {"mem_limit": "32m"}}
    async with with_services(services, resources={"memory_mb": 64}) as session:
        main = client.containers.get(session.handle.data["container"]).attrs["HostConfig"]
        assert (main["Memory"], main["NanoCpus"]) == (64 * 1024**2, 500_000_000)
        web = service_container(client, session.handle.id, "web").attrs["HostConfig"]
        assert web["Memory"] == 32 * 1024**2


async def test_a_session_is_taken_up_and_closed_by_another_process(provider, client, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    session = await provider().open(services_request(tmp_path, {"web": WEB}))
    answer = await UNDER_TEST.in_other_process(session.handle, "execute", FETCH)
    assert answer == {"returncode": 0, "stdout": "served by web\n"}
    await UNDER_TEST.in_other_process(session.handle, "close")
    assert belongings(client, session.handle.id) == []


async def test_a_service_may_have_the_image_of_the_task_and_end_at_once(with_services) -> None:  # type: ignore[no-untyped-def]
    policy = {"network_mode": "allowlist", "allowed_hosts": ["example.com"]}
    once = {"image": "${MAIN_IMAGE_NAME}", "command": "cp /etc/passwd /data/", "volumes": ["data:/data"]}
    services = {"main": {"depends_on": ["once"], "volumes": ["data:/data"]}, "once": once}
    async with with_services(services, policy=policy, top={"volumes": {"data": {}}}) as session:
        assert (await session.exec("cmp /etc/passwd /data/passwd")).ok


async def test_an_opening_that_is_repeated_takes_up_what_is_there(provider, client, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    request = services_request(tmp_path, {"web": WEB})
    first, second = await provider().open(request), await provider().open(request)
    assert first.handle == second.handle
    assert len(belongings(client, request.environment_id)) == 3
    await provider().close(first.handle)


async def test_files_of_the_task_are_copied_and_a_shared_folder_is_shared(
    with_services, tmp_path: Path
) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared/word.txt").write_text("first\n")
    (tmp_path / "page.html").write_text("from the task\n")
    services = {
        "main": {"volumes": ["./shared:/shared:ro"]},
        "web": WEB
        | {
            "command": "sh -c 'echo second >> /shared/word.txt; exec httpd -f -p 8080 -h /srv'",
            "volumes": ["./shared/:/shared", "./page.html:/srv/index.html"],
        },
    }
    async with with_services(services) as session:
        assert (await session.exec(FETCH)).stdout.text == "from the task\n"
        assert (await session.exec("cat /shared/word.txt")).stdout.text == "first\nsecond\n"
        assert not (await session.exec("touch /shared/mine")).ok
    assert (tmp_path / "shared/word.txt").read_text() == "first\n"


async def test_the_command_of_main_runs_beside_the_agent(with_services) -> None:  # type: ignore[no-untyped-def]
    main = {
        "command": ["sh", "-c", "sleep 0.2; echo ready > /tmp/ready; sleep infinity"],
        "environment": {"COLOUR": "blue"},
        "healthcheck": {"test": "test -e /tmp/ready", "interval": "100ms", "retries": 100},
        "working_dir": "/srv/app",
        "user": "agent",
    }
    async with with_services({"main": main, "web": WEB}) as session:
        told = await session.exec("cat /tmp/ready; echo $COLOUR; pwd; id -un")
        assert told.stdout.text.split() == ["ready", "blue", "/srv/app", "agent"]


@pytest.mark.parametrize(
    ("keys", "reason"),
    [
        ({"command": "sleep 600", "healthcheck": {"test": "echo not yet; exit 1", "interval": "1s", "retries": 9999}},
         r"service 'web' was not healthy within \d+ s; its last check: status 1 not yet"),
        ({"command": "sleep 600", "healthcheck": {"test": "echo broken; exit 1", "interval": "50ms", "retries": 2}},
         "service 'web' is not healthy: status 1 broken"),
        ({"command": ["sh", "-c", "echo no licence; exit 7"]},
         "service 'web' has ended with status 7 before it was healthy; its last output: no licence"),
        ({"command": ["/no/such/program"]}, "service 'web' cannot be started: .*/no/such/program"),
        ({"image": "localhost:1/no/such:image"}, "localhost:1/no/such:image"),
    ],
    ids=["late", "unhealthy", "ended", "no-program", "no-image"],
)  # fmt: skip
async def test_a_service_that_does_not_get_ready_is_named_and_nothing_is_left(  # type: ignore[no-untyped-def]
    provider, client, tmp_path: Path, keys: dict[str, Any], reason: str
) -> None:
    services = {"main": {"depends_on": ["web"]}, "web": {"image": IMAGE} | keys}
    request = services_request(tmp_path, services, setup={"build_timeout_seconds": 4.0})
    with pytest.raises((OSError, UsageError), match=reason):
        await provider().open(request)
    assert belongings(client, request.environment_id) == []


async def test_waiting_for_health_that_nobody_checks_is_refused(provider, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    services = {
        "main": {"depends_on": {"web": {"condition": "service_healthy"}}},
        "web": {"image": IMAGE, "command": "sleep 600"},
    }
    with pytest.raises(OSError, match="service 'web' has no health check"):
        await provider().open(services_request(tmp_path, services))


async def test_what_is_not_allowed_is_refused_before_anything_is_opened(provider, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    request = services_request(tmp_path, {"web": WEB | {"privileged": True}})
    with pytest.raises(UsageError, match=r"docker-compose.yaml: .*services.web.privileged"):
        await provider().preflight(request.spec)


@pytest.mark.parametrize("kind", ["network", "volume", "container"])
async def test_what_is_somebody_elses_is_not_taken(provider, client, tmp_path: Path, kind: str) -> None:  # type: ignore[no-untyped-def]
    services = {"web": WEB | {"volumes": ["data:/data"]}}
    request = services_request(tmp_path, services, top={"volumes": {"data": {}}})
    name = request.environment_id
    if kind == "network":
        theirs = client.networks.create(name, driver="bridge", internal=True)
    elif kind == "volume":
        theirs = client.volumes.create(f"{name}.v-data")
    else:
        theirs = client.containers.create(IMAGE, ["true"], name=f"{name}.s-web", network_mode="none")
    try:
        with pytest.raises(UsageError, match=f"a {kind} .* of somebody else is in the way"):
            await provider().open(request)
        theirs.reload()
        assert belongings(client, request.environment_id) == []
    finally:
        theirs.remove()


async def test_a_service_that_dies_is_told_with_its_log(provider, client, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    until_told = "until [ -e /tmp/stop ]; do sleep 0.1; done"
    services = {
        "web": WEB,
        "fragile": {"image": IMAGE, "command": ["sh", "-c", f"{until_told}; echo going down; exit 3"]},
        "task": {"image": IMAGE, "command": "echo seeded"},
    }
    environment = provider()
    session = await environment.open(services_request(tmp_path, services))
    in_service(client, session.handle.id, "fragile", "touch /tmp/stop")

    async def ended() -> bool:
        return str(service_container(client, session.handle.id, "fragile").status) == "exited"

    await eventually(ended, "the service is dead")
    assert (await session.exec("echo alive")).ok
    attached = await provider().attach(session.handle)
    await attached.set_network_policy(NetworkPolicy(network_mode="public"))
    found = {report.name: report for report in await environment.services(session.handle)}
    assert (found["web"].running, found["web"].problem) == (True, "")
    assert (found["task"].running, found["task"].problem) == (False, "")
    assert found["fragile"].problem.startswith("ended with status 3 at ")
    assert b"going down" in found["fragile"].log
    await environment.close(session.handle)


async def test_a_worker_that_is_killed_while_services_start_leaves_nothing_unknown(  # type: ignore[no-untyped-def]
    provider, client, tmp_path: Path
) -> None:
    services = {
        "main": {"depends_on": {"never": {"condition": "service_healthy"}}},
        "never": {
            "image": IMAGE,
            "command": "sleep 600",
            "healthcheck": {"test": "exit 1", "interval": "1s", "retries": 9999},
            "volumes": ["data:/data"],
        },
    }
    request = services_request(tmp_path, services, top={"volumes": {"data": {}}})
    script = (
        "import asyncio, sys\n"
        "from agentcompass.contracts import OpenRequest\n"
        "from agentcompass.plugins.environments.docker import Docker, DockerParams\n"
        f"params = DockerParams(image={IMAGE!r}, pull='never')\n"
        "asyncio.run(Docker(params).open(OpenRequest.model_validate_json(sys.argv[1])))\n"
    )
    worker = await asyncio.create_subprocess_exec(sys.executable, "-c", script, request.model_dump_json())

    async def begun() -> bool:
        return len(belongings(client, request.environment_id)) == 3

    try:
        await eventually(begun, "network, volume and the first service are there")
    finally:
        worker.kill()
        await worker.wait()
    environment = provider()
    [record] = [
        record
        for record in await environment.list_environments({"launch": "docker-test"})
        if record.handle.id == request.environment_id
    ]
    await environment.close(record.handle)
    assert belongings(client, request.environment_id) == []


async def test_a_network_without_a_container_is_found_and_removed(provider, client, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    request = services_request(tmp_path, {"web": WEB})
    labels = {"agentcompass.environment": request.environment_id, "agentcompass.label.launch": "docker-test"}
    client.networks.create(request.environment_id, driver="bridge", internal=True, labels=labels)
    environment = provider()
    found = await environment.list_environments({"launch": "docker-test"})
    [record] = [item for item in found if item.handle.id == request.environment_id]
    await environment.close(record.handle)
    assert belongings(client, request.environment_id) == []
