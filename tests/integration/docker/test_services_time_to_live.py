"""Services end with their sandbox when every worker is gone, and leave nothing."""

from __future__ import annotations

import logging
import time
from pathlib import Path

import pytest
from command_line import wait_for
from compose_services import WEB, belongings, in_service, services_request
from docker_engine import IMAGE, open_request

from agentcompass.plugins.environments.docker import services_keeper
from agentcompass.plugins.environments.docker.engine import Engine
from agentcompass.plugins.environments.docker.services_keeper import ensure_keeper, socket_of

SHORT = 10
KEEPER = "agentcompass-keeper"


async def test_services_whose_sandbox_has_ended_go_with_all_that_is_theirs_and_others_stay(  # type: ignore[no-untyped-def]
    provider, client, tmp_path: Path
) -> None:
    services = {"web": WEB | {"volumes": ["data:/data"]}}
    for name in ("left", "other"):
        (tmp_path / name).mkdir()
    left = services_request(tmp_path / "left", services, top={"volumes": {"data": None}})
    other = services_request(tmp_path / "other", services, top={"volumes": {"data": None}})
    environment = provider(time_to_live_seconds=3600)
    stays = await environment.open(other)
    ends = await provider(time_to_live_seconds=SHORT).open(left)
    try:
        assert len(belongings(client, left.environment_id)) == 4
        wait_for("the end of all that was left", lambda: not belongings(client, left.environment_id))
        assert len(belongings(client, other.environment_id)) == 4
        assert (await stays.exec("wget -q -O - http://web:8080/")).stdout.text == "served by web\n"
    finally:
        await environment.close(ends.handle)
        await environment.close(stays.handle)


async def test_a_renewed_sandbox_keeps_its_services(provider, client, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    environment = provider(time_to_live_seconds=SHORT)
    began = time.monotonic()
    session = await environment.open(services_request(tmp_path, {"web": WEB}))
    try:
        await environment.renew(session.handle, time.time() + 3600)
        lived = began + 2 * SHORT
        wait_for("twice its time to live", lambda: time.monotonic() > lived)
        assert (await session.exec("wget -q -O - http://web:8080/")).stdout.text == "served by web\n"
        assert in_service(client, session.handle.id, "web", "echo on") == "on\n"
    finally:
        await environment.close(session.handle)


async def test_what_a_killed_opening_left_goes_after_the_time_that_it_would_have_had(client) -> None:  # type: ignore[no-untyped-def]
    request = open_request()
    labels = {"agentcompass.environment": request.environment_id, "agentcompass.seconds": str(SHORT)}
    client.networks.create(request.environment_id, driver="bridge", internal=True, labels=labels)
    client.volumes.create(f"{request.environment_id}.v-data", labels=labels)
    ensure_keeper(Engine(None, 60), None)
    wait_for("the end of what was left", lambda: not belongings(client, request.environment_id))


def test_the_keeper_has_no_network_and_no_rights_and_one_serves_all(client) -> None:  # type: ignore[no-untyped-def]
    for _ in range(2):
        ensure_keeper(Engine(None, 60), None)
    [found] = client.containers.list(filters={"label": "agentcompass.keeper"})
    host = found.attrs["HostConfig"]
    assert (host["NetworkMode"], host["CapDrop"], host["ReadonlyRootfs"]) == ("none", ["ALL"], True)
    assert host["UsernsMode"] == "host"  # or it could not open the socket of an engine that remaps users
    assert found.exec_run(["true"]).exit_code != 0  # it holds a Python and no other program


def test_an_engine_that_does_not_let_it_in_is_named_once(client, caplog: pytest.LogCaptureFixture) -> None:  # type: ignore[no-untyped-def]
    del client
    engine = Engine(None, 60)
    assert engine.api
    engine.host = "tcp://elsewhere:2376"  # whose socket is not where it usually is
    services_keeper._warn.cache_clear()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(services_keeper, "_USUAL_SOCKET", "/nowhere/docker.sock")
        patch.setattr(services_keeper, "_NAME", "agentcompass-keeper-test")
        with caplog.at_level(logging.WARNING):
            ensure_keeper(engine, None)
            ensure_keeper(engine, None)
    [record] = [record for record in caplog.records if "do not end by themselves" in record.getMessage()]
    assert "tcp://elsewhere:2376" in record.getMessage() and "/nowhere/docker.sock" in record.getMessage()


def test_its_end_under_living_sandboxes_is_told_once(  # type: ignore[no-untyped-def]
    client, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "agentcompass-keeper-test-ended"
    monkeypatch.setattr(services_keeper, "_NAME", name)
    monkeypatch.setattr(services_keeper, "_seen", set())
    services_keeper._warn_of_end.cache_clear()
    engine = Engine(None, 60)
    labels = {"agentcompass.service": "main"}
    living = client.containers.run(IMAGE, ["sleep", "600"], detach=True, labels=labels, network_mode="none")
    try:
        with caplog.at_level(logging.WARNING):
            ensure_keeper(engine, None)  # there was none so far, which says nothing
            assert not caplog.records
            for _ in range(2):
                client.api.remove_container(name, force=True)
                ensure_keeper(engine, None)
        [record] = caplog.records
        assert "had ended although sandboxes with services are there" in record.getMessage()
    finally:
        living.remove(force=True)
        client.api.remove_container(name, force=True)


@pytest.mark.parametrize(
    ("host", "path"),
    [
        ("unix:///tmp/engine.sock", "/tmp/engine.sock"),
        ("tcp://10.0.0.1:2376", "/var/run/docker.sock"),
        ("ssh://user@host", "/var/run/docker.sock"),
        ("ssh://user@host:22/run/other.sock", "/run/other.sock"),
    ],
)
def test_where_the_engine_s_socket_is(host: str, path: str) -> None:
    assert socket_of(host) == path
