"""Network policies: what is reached under each, what is not, and the ways around that are tried."""

from __future__ import annotations

import asyncio
import threading
import uuid
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import docker
import pytest
from docker_engine import open_request
from environment_providers import ProviderUnderTest, eventually

from agentcompass.contracts import EnvironmentSpec, NetworkPolicy
from agentcompass.plugins.environments.docker import public_network
from agentcompass.plugins.environments.docker.egress_proxy import EgressProxy
from agentcompass.plugins.environments.docker.engine import Engine
from agentcompass.plugins.environments.docker.session import DockerSession

HOST = "host.docker.internal"
"""The engine's machine, as the egress proxy and public sandboxes know it."""
PROXY = "http://127.0.0.1:3128"


class Site(BaseHTTPRequestHandler):
    """Answers everything; counts nothing."""

    def do_GET(self) -> None:
        body = f"reached {self.headers['Host']}{self.path}\n".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Tests print nothing."""


def serve() -> Iterator[int]:
    with ThreadingHTTPServer(("0.0.0.0", 0), Site) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


@pytest.fixture(scope="module")
def site() -> Iterator[int]:
    """The port of a site on the engine's machine."""
    yield from serve()


@pytest.fixture(scope="module")
def other_site() -> Iterator[int]:
    """The port of another one, which no policy names."""
    yield from serve()


def allowing(*entries: str) -> NetworkPolicy:
    return NetworkPolicy(network_mode="allowlist", allowed_hosts=list(entries))


def gateway_of(client: docker.DockerClient) -> str:
    """The address of the engine's machine in the network of public sandboxes."""
    address: str = client.networks.get("agentcompass").attrs["IPAM"]["Config"][0]["Gateway"]
    return address


async def fetched(session: DockerSession, url: str, *, proxy: str | None = None) -> str:
    """What wget says of a URL, be it the page or the refusal."""
    env = None if proxy is None else {"http_proxy": proxy}
    result = await session.exec(["wget", "-O", "-", url], env=env, timeout_seconds=30)
    return result.stdout.text + result.stderr.text


async def tunnel(session: DockerSession, authority: str) -> str:
    """The proxy's answer to a request for a tunnel."""
    request = f"CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\n".encode()
    return (await session.exec("nc -w 5 127.0.0.1 3128", stdin=request, timeout_seconds=30)).stdout.text


async def test_without_a_network_there_is_a_loopback_and_nothing_else(opening, site: int) -> None:  # type: ignore[no-untyped-def]
    async with opening(policy="no-network") as session:
        interfaces = (await session.exec("ls /sys/class/net; cat /proc/net/route | tail -n +2")).stdout.text
        assert interfaces.split() == ["lo"]
        assert "reached" not in await fetched(session, f"http://{HOST}:{site}/")
        assert not (await session.exec("nslookup -timeout=1 example.com 8.8.8.8", timeout_seconds=20)).ok


async def test_a_public_sandbox_reaches_what_its_machine_reaches(opening, site: int) -> None:  # type: ignore[no-untyped-def]
    async with opening(policy="public") as session:
        assert f"reached {HOST}:{site}/x" in await fetched(session, f"http://{HOST}:{site}/x")


async def test_public_sandboxes_do_not_reach_one_another(opening) -> None:  # type: ignore[no-untyped-def]
    async with opening(policy="public") as one, opening(policy="public") as other:
        await one.start_process("server", "echo secret > index.html; httpd -f -p 8080")
        address = (await one.endpoint(8080) or "").removeprefix("http://").partition(":")[0]

        async def serves() -> bool:
            return (await one.exec(["wget", "-q", "-O", "-", "http://127.0.0.1:8080/"])).ok

        await eventually(serves, "the server in the sandbox is up")
        result = await other.exec(["wget", "-q", "-O", "-", f"http://{address}:8080/"], timeout_seconds=5)
        assert "secret" not in result.stdout.text


async def test_an_endpoint_leads_into_a_public_sandbox_only(opening) -> None:  # type: ignore[no-untyped-def]
    async with opening(policy="no-network") as session:
        assert await session.endpoint(80) is None
        await session.set_network_policy(NetworkPolicy())
        endpoint = await session.endpoint(8080)
        assert endpoint is not None
        await session.start_process("server", "echo served > index.html; httpd -f -p 8080")

        async def serves() -> bool:
            reader = await asyncio.create_subprocess_exec(
                "python3",
                "-c",
                "import sys, urllib.request; sys.exit(b'served' not in urllib.request.urlopen(sys.argv[1]).read())",
                f"{endpoint}/",
                stderr=asyncio.subprocess.DEVNULL,
            )
            return await reader.wait() == 0

        await eventually(serves, "the endpoint answers")


async def test_an_allowlist_lets_through_what_it_names(opening, site: int) -> None:  # type: ignore[no-untyped-def]
    async with opening(policy=allowing(f"{HOST}:{site}")) as session:
        assert f"reached {HOST}:{site}/a?b=c" in await fetched(session, f"http://{HOST}:{site}/a?b=c")
        assert "200 Connection established" in await tunnel(session, f"{HOST}:{site}")


async def test_an_allowlist_keeps_everything_else_out(opening, client, site: int, other_site: int) -> None:  # type: ignore[no-untyped-def]
    async with opening(policy=allowing(f"{HOST}:{site}", "*.example.com")) as session:
        gateway = gateway_of(client)
        for authority in (
            f"{HOST}:{other_site}",  # another port
            f"{gateway}:{site}",  # the address behind the name
            f"[::ffff:{gateway}]:{site}",  # in another form
            f"2886795265:{site}",  # and another
            "169.254.169.254:80",  # metadata of a cloud
            "[fd00:ec2::254]:80",
            "[fe80::1]:80",
            "127.0.0.1:3128",  # the proxy's own machine
            "localhost:3128",
            "[::1]:3128",
            "0.0.0.0:80",
            "example.com:443",  # not a name below example.com
            "notexample.com:443",
            "sub.example.com.evil.test:443",
            "secret-data.evil.test:53",  # would be told to a name server
        ):
            assert "403 Forbidden" in await tunnel(session, authority), authority
        assert "400 Bad Request" in await tunnel(session, "/etc/passwd")


async def test_there_is_no_way_around_the_proxy(opening, client, site: int) -> None:  # type: ignore[no-untyped-def]
    async with opening(policy=allowing(f"{HOST}:{site}")) as session:
        assert (await session.exec("ls /sys/class/net")).stdout.text == "lo\n"
        for address in (gateway_of(client), "169.254.169.254", "[fe80::1]", HOST):
            assert "reached" not in await fetched(session, f"http://{address}:{site}/", proxy="")
        assert not (await session.exec("nslookup -timeout=1 example.com 127.0.0.11", timeout_seconds=20)).ok
        assert not (await session.exec("ip link add dummy0 type dummy")).ok
        assert not (await session.exec("ls /egress")).ok


async def test_a_policy_switches_on_the_living_sandbox(opening, provider, site: int) -> None:  # type: ignore[no-untyped-def]
    url = f"http://{HOST}:{site}/"
    async with opening(policy="public") as session:
        assert "reached" in await fetched(session, url)
        await session.set_network_policy(NetworkPolicy(network_mode="no-network"))
        assert "reached" not in await fetched(session, url)
        assert not (await session.exec("nslookup -timeout=1 example.com", timeout_seconds=20)).ok
        await session.set_network_policy(allowing(f"{HOST}:{site}"))
        assert "reached" in await fetched(session, url)
        attached = await provider().attach(session.handle)
        assert "reached" in await fetched(attached, url)
        await attached.set_network_policy(allowing("elsewhere.test"))
        assert "403" in await fetched(attached, url)
        await attached.set_network_policy(NetworkPolicy(network_mode="no-network"))
        assert "reached" not in await fetched(attached, url, proxy=PROXY)
        await attached.set_network_policy(NetworkPolicy())
        assert "reached" in await fetched(attached, url)


async def test_a_stricter_policy_cuts_connections_that_are_open(opening, site: int) -> None:  # type: ignore[no-untyped-def]
    async with opening(policy=allowing(f"{HOST}:{site}")) as session:
        request = f"CONNECT {HOST}:{site} HTTP/1.1\\r\\n\\r\\n"
        await session.start_process("tunnel", f"(printf '{request}'; sleep 600) | nc 127.0.0.1 3128")

        async def is_open() -> bool:
            return b"200 Connection" in await session.read_process_output("tunnel", "stdout", 0)

        await eventually(is_open, "the tunnel is open")
        await session.set_network_policy(allowing("elsewhere.test"))
        count = "cat /proc/net/tcp | awk '$3 ~ /:0C38$/ && $4 == \"01\"' | wc -l"

        async def is_cut() -> bool:
            return (await session.exec(count)).stdout.text.strip() == "0"

        await eventually(is_cut, "the tunnel is cut")


async def test_each_sandbox_has_its_own_list(opening, site: int, other_site: int) -> None:  # type: ignore[no-untyped-def]
    async with (
        opening(policy=allowing(f"{HOST}:{site}")) as one,
        opening(policy=allowing(f"{HOST}:{other_site}")) as two,
    ):
        assert "200 Connection" in await tunnel(one, f"{HOST}:{site}")
        assert "403 Forbidden" in await tunnel(one, f"{HOST}:{other_site}")
        assert "200 Connection" in await tunnel(two, f"{HOST}:{other_site}")
        assert "403 Forbidden" in await tunnel(two, f"{HOST}:{site}")


async def test_an_agent_reaches_what_it_may_while_no_worker_is_there(opening, provider, site: int) -> None:  # type: ignore[no-untyped-def]
    async with opening(policy=allowing(f"{HOST}:{site}")) as session:
        handle = session.handle
        command = f"while [ ! -e go ]; do sleep 0.1; done; wget -q -O - http://{HOST}:{site}/late"
        under_test = ProviderUnderTest(
            target="agentcompass.plugins.environments.docker:Docker",
            params={"pull": "never"},
            spec=EnvironmentSpec(id="docker"),
        )
        worker = await under_test.start_other_process(handle, "start_and_follow", "agent", command)
        await eventually(lambda: started(session, "agent"), "the agent runs")
        worker.kill()
        await worker.wait()
        await session.write("go", b"")
        later = await provider().attach(handle)

        async def ended() -> bool:
            status = await later.process_status("agent")
            return status is not None and not status.running

        await eventually(ended, "the agent ends")
        assert b"reached" in await later.read_process_output("agent", "stdout", 0)


async def test_a_proxy_that_was_killed_is_there_again_after_attach_and_knows_the_policy(  # type: ignore[no-untyped-def]
    opening, provider, client: docker.DockerClient, site: int, other_site: int
) -> None:
    async with opening(policy=allowing(f"{HOST}:{site}")) as session:
        client.api.remove_container("agentcompass-egress", force=True)
        assert "reached" not in await fetched(session, f"http://{HOST}:{site}/")
        attached = await provider().attach(session.handle)
        assert "200 Connection" in await tunnel(attached, f"{HOST}:{site}")
        assert "403 Forbidden" in await tunnel(attached, f"{HOST}:{other_site}")


async def test_a_forged_note_in_the_sandbox_opens_nothing(opening, provider, site: int) -> None:  # type: ignore[no-untyped-def]
    async with opening(policy="no-network") as session:
        await session.exec("echo 'f00 2026' > /.agentcompass/egress")
        attached = await provider().attach(session.handle)
        assert "reached" not in await fetched(attached, f"http://{HOST}:{site}/", proxy=PROXY)


async def test_openings_at_the_same_time_share_one_proxy(
    provider: Callable[..., Any], client: docker.DockerClient
) -> None:
    with_proxy = EgressProxy(provider()._engine, None)
    if with_proxy.identity() is not None:
        client.api.remove_container("agentcompass-egress", force=True)
    environments = [provider(engine_timeout_seconds=60 + n) for n in range(3)]  # a connection each
    requests = [open_request(network_policy=allowing("elsewhere.test")) for _ in environments]
    sessions = await asyncio.gather(
        *(one.open(request) for one, request in zip(environments, requests, strict=True))
    )
    for environment, session in zip(environments, sessions, strict=True):
        assert "403 Forbidden" in await tunnel(session, f"{HOST}:80")
        await environment.close(session.handle)


async def started(session: DockerSession, process_id: str) -> bool:
    """Whether somebody has started it."""
    return await session.process_status(process_id) is not None


async def test_of_two_networks_that_were_made_at_once_one_is_left_and_used(  # type: ignore[no-untyped-def]
    opening, client, monkeypatch
) -> None:
    name = f"agentcompass-test-{uuid.uuid4().hex[:8]}"
    monkeypatch.setattr(public_network, "NAME", name)
    labels = {"agentcompass.network": "1"}
    first, _ = [client.api.create_network(name, driver="bridge", labels=labels)["Id"] for _ in range(2)]
    try:
        async with opening(policy="public") as session:
            assert (await session.exec("true")).ok
        assert [network["Id"] for network in client.api.networks(names=[name])] == [first]
    finally:
        for network in client.api.networks(names=[name]):
            client.api.remove_network(network["Id"])


async def test_a_network_that_others_have_called_so_is_never_removed(client, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    name = f"agentcompass-test-{uuid.uuid4().hex[:8]}"
    monkeypatch.setattr(public_network, "NAME", name)
    theirs, ours, more = [
        client.api.create_network(name, driver="bridge", labels=labels)["Id"]
        for labels in (None, {"agentcompass.network": "1"}, {"other": "1"})
    ]
    try:
        assert public_network.public_network(Engine(None, 60)).id == ours
        assert {network["Id"] for network in client.api.networks(names=[name])} == {theirs, ours, more}
        client.api.remove_network(ours)
        assert public_network.public_network(Engine(None, 60)).id == theirs
    finally:
        for network in client.api.networks(names=[name]):
            client.api.remove_network(network["Id"])
