"""Network policies hold for the services of a task as for its sandbox; ways around that are tried from a service."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import AsyncIterator, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from compose_services import WEB, in_service, service_container, services_request

from agentcompass.contracts import NetworkPolicy
from agentcompass.plugins.environments.docker.session import DockerSession

HOST = "host.docker.internal"
NOTHING = NetworkPolicy(network_mode="no-network")


class Site(BaseHTTPRequestHandler):
    """Answers everything."""

    def do_GET(self) -> None:
        body = b"reached\n"
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Tests print nothing."""


@pytest.fixture(scope="module")
def site() -> Iterator[int]:
    """The port of a site on the engine's machine, on every address it has."""
    with ThreadingHTTPServer(("0.0.0.0", 0), Site) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


@pytest.fixture
def opened(provider, tmp_path: Path):  # type: ignore[no-untyped-def]
    """A sandbox with the service ``web``; closed afterwards."""

    @contextlib.asynccontextmanager
    async def open_one(policy: Any, **spec: Any) -> AsyncIterator[DockerSession]:
        environment = provider()
        session = await environment.open(services_request(tmp_path, {"web": WEB}, policy, **spec))
        try:
            yield session
        finally:
            await environment.close(session.handle)

    return open_one


def allowing(*hosts: str) -> dict[str, Any]:
    return {"network_mode": "allowlist", "allowed_hosts": list(hosts)}


def machine_addresses(client: Any, environment_id: str) -> list[str]:
    """Where the engine's machine could be met: in the public network, and in the task's own."""
    [own] = client.networks.list(filters={"label": f"agentcompass.environment={environment_id}"})
    own.reload()
    networks = [own, client.networks.get("agentcompass")]
    return [network.attrs["IPAM"]["Config"][0]["Gateway"].partition("/")[0] for network in networks]


async def fetched(session: DockerSession, url: str) -> str:
    """What the sandbox itself gets from a URL, without a proxy."""
    result = await session.exec(f"http_proxy= timeout 3 wget -O - {url}", timeout_seconds=20)
    return result.stdout.text


async def reached_from(session: DockerSession, client: Any, urls: list[str]) -> tuple[str, str]:
    """What the sandbox and its service get from all of the URLs together, without a proxy."""
    script = " ".join(f"(http_proxy= timeout 2 wget -O - {url} 2>&1) &" for url in urls) + " wait"
    own = await session.exec(script, timeout_seconds=20)
    return own.stdout.text, in_service(client, session.handle.id, "web", script)


async def test_without_a_network_services_reach_one_another_and_nothing_else(
    opened, client, site: int
) -> None:  # type: ignore[no-untyped-def]
    async with opened("no-network") as session:
        assert await fetched(session, "http://web:8080/") == "served by web\n"
        name = session.handle.id
        addresses = [*machine_addresses(client, name), "169.254.169.254", HOST, "1.1.1.1"]
        for told in await reached_from(session, client, [f"http://{to}:{site}/" for to in addresses]):
            assert "reached" not in told
        lookup = "nslookup -timeout=1 example.com & nslookup -timeout=1 example.com 8.8.8.8 & wait"
        told = in_service(client, name, "web", f"{lookup}; cat /proc/net/if_inet6")
        assert "Address: " not in told.replace("Address: 127", "") and "fe80" not in told
        told = in_service(client, name, "web", "ip link add d0 type dummy; ip route add 10.0.0.0/8 dev eth0")
        assert told.count("Operation not permitted") == 2


async def test_services_of_two_tasks_do_not_reach_one_another(
    opened, provider, client, tmp_path: Path
) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "other").mkdir()
    other = await provider().open(services_request(tmp_path / "other", {"web": WEB}, "public"))
    async with opened("public") as session:
        networks = service_container(client, other.handle.id, "web").attrs["NetworkSettings"]["Networks"]
        addresses = [entry["IPAddress"] for entry in networks.values()]
        assert len(addresses) == 2
        for told in await reached_from(session, client, [f"http://{to}:8080/" for to in addresses]):
            assert "served" not in told
    await provider().close(other.handle)


async def test_a_public_policy_holds_for_services_and_can_be_taken_back(
    opened, provider, client, site: int
) -> None:  # type: ignore[no-untyped-def]
    url = f"http://{HOST}:{site}/"
    async with opened("public") as session:
        assert all("reached" in told for told in await reached_from(session, client, [url]))
        await session.set_network_policy(NOTHING)
        addresses = [HOST, *machine_addresses(client, session.handle.id)]
        for told in await reached_from(session, client, [f"http://{to}:{site}/" for to in addresses]):
            assert "reached" not in told
        assert await fetched(session, "http://web:8080/") == "served by web\n"
        attached = await provider().attach(session.handle)
        assert attached.network_mode == "no-network"
        await attached.set_network_policy(NetworkPolicy())
        assert all("reached" in told for told in await reached_from(session, client, [url]))


async def test_an_allowlist_holds_for_services_which_are_told_of_the_proxy(opened, client, site: int) -> None:  # type: ignore[no-untyped-def]
    url = f"http://{HOST}:{site}/"
    async with opened(allowing(f"{HOST}:{site}")) as session:
        name = session.handle.id
        proxied = await session.exec(["wget", "-O", "-", url], timeout_seconds=20)
        assert proxied.stdout.text == "reached\n"
        assert "web" in (await session.exec("echo $no_proxy")).stdout.text
        assert await fetched(session, "http://web:8080/") == "served by web\n"
        proxy = "http_proxy=http://127.0.0.1:3128"
        assert "reached" in in_service(client, name, "web", f"{proxy} wget -O - {url} 2>&1")
        assert "http://127.0.0.1:3128" in in_service(client, name, "web", "echo $HTTP_PROXY")
        around = f"timeout 3 wget -O - {url} 2>&1"
        assert "reached" not in in_service(client, name, "web", around)
        told = in_service(
            client, name, "web", f"{proxy} wget -O - http://{machine_addresses(client, name)[1]}:{site}/ 2>&1"
        )
        assert "403" in told
        await session.set_network_policy(NOTHING)
        assert "reached" not in in_service(client, name, "web", f"{proxy} timeout 3 wget -O - {url} 2>&1")


async def test_a_sandbox_is_no_way_out_for_a_service_nor_the_other_way_round(
    opened, client, site: int
) -> None:  # type: ignore[no-untyped-def]
    async with opened(allowing(f"{HOST}:{site}")) as session:
        # The proxy listens on the loopback of each container only.
        for target in ("web", "main"):
            tunnel = f"CONNECT {HOST}:{site} HTTP/1.1\\r\\n\\r\\n"
            told = await session.exec(f"printf '{tunnel}' | nc -w 2 {target} 3128", timeout_seconds=20)
            assert "200" not in told.stdout.text
            assert "200" not in in_service(
                client, session.handle.id, "web", f"printf '{tunnel}' | nc -w 2 {target} 3128"
            )
