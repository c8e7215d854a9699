"""Engines elsewhere: over TCP with client certificates, and over SSH."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from command_line import CommandLine, kill_and_wait, running_with, wait_for
from docker_engine import IMAGE, open_request, require_engine
from environment_providers import eventually
from own_engine import OwnEngine, own_engine
from ssh_server import SshServer, ssh_server

from agentcompass.contracts import (
    EnvironmentLostError,
    EnvironmentSpec,
    NetworkPolicy,
    ServiceUnreachableError,
    UsageError,
)
from agentcompass.plugins.environments.docker import Docker, DockerParams
from agentcompass.plugins.environments.docker.engine import engine_at
from agentcompass.plugins.environments.docker.ssh_tunnel import SshTunnel

KINDS = ["tcp with client certificates", "ssh"]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@pytest.fixture(scope="module")
def tls_engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnEngine]:
    with own_engine(tmp_path_factory.mktemp("engine"), free_port()) as found:
        yield found


@pytest.fixture(scope="module")
def ssh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshServer]:
    require_engine()
    with ssh_server(tmp_path_factory.mktemp("ssh"), free_port()) as found:
        yield found


def ssh_variables(server: SshServer) -> dict[str, str]:
    """What a user sets for an engine behind SSH; the program ``ssh`` is the one that knows the server."""
    return {
        "DOCKER_HOST": f"{server.address}{local_socket()}",
        "PATH": f"{server.programs}{os.pathsep}{os.environ['PATH']}",
    }


def local_socket() -> str:
    return urlsplit(os.environ.get("DOCKER_HOST") or "unix:///var/run/docker.sock").path


@pytest.fixture(params=KINDS)
def variables(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    if request.param == "ssh":
        found = ssh_variables(request.getfixturevalue("ssh"))
    else:
        found = request.getfixturevalue("tls_engine").variables
    for name, value in found.items():
        monkeypatch.setenv(name, value)
    engine_at.cache_clear()
    yield found
    engine_at.cache_clear()


def provider(**changes: object) -> Docker:
    return Docker(
        DockerParams.model_validate({"image": IMAGE, "pull": "never", "grace_seconds": 0.2} | changes)
    )


async def test_a_sandbox_is_used_as_on_this_machine(variables: dict[str, str], tmp_path: Path) -> None:
    environment = provider()
    await environment.preflight(EnvironmentSpec(id="docker"))
    session = await environment.open(open_request())
    try:
        result = await session.exec("cat; echo out; echo err >&2; exit 3", stdin=b"in ")
        assert (result.returncode, result.stdout.text, result.stderr.text) == (3, "in out\n", "err\n")
        assert (await session.exec("head -c 3000000 /dev/zero | wc -c")).stdout.text == "3000000\n"

        tree = tmp_path / "tree"
        (tree / "below").mkdir(parents=True)
        (tree / "below" / "large").write_bytes(os.urandom(2_000_000))
        await session.upload(tree, "up")
        await session.download("up", tmp_path / "down")
        assert (tmp_path / "down/below/large").read_bytes() == (tree / "below/large").read_bytes()

        await session.start_process("agent", "echo begun; sleep 600")
        late = await session.exec("sleep 600 & wait", timeout_seconds=0.5)
        assert late.timed_out

        async def begun() -> bool:
            return await session.read_process_output("agent", "stdout", 0) == b"begun\n"

        await eventually(begun, "the agent has begun")
        attached = await provider().attach(session.handle)
        status = await attached.process_status("agent")
        assert status is not None and status.running
        assert await attached.end_all_processes() >= 1
        await attached.set_network_policy(NetworkPolicy(network_mode="public"))
        assert session.handle.id in {record.handle.id for record in await environment.list_environments()}
    finally:
        await environment.close(session.handle)
    with pytest.raises(EnvironmentLostError):
        await session.exec("true")


async def test_a_cancelled_command_is_dead_there(variables: dict[str, str]) -> None:
    environment = provider()
    session = await environment.open(open_request())
    try:
        running = asyncio.create_task(session.exec("echo > begun; exec sleep 987"))

        async def begun() -> bool:
            return (await session.exec("test -e begun")).ok

        await eventually(begun, "the command runs")
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert "sleep 987" not in (await session.exec("ps")).stdout.text
    finally:
        await environment.close(session.handle)


def test_a_run_uses_it(variables: dict[str, str], command_line: CommandLine) -> None:
    rows = [{"id": "hello", "command": "echo hello", "expected_stdout": "hello"}]
    ended = command_line.run(
        *("run", "command", "none", "none", "--benchmark-params", command_line.dataset(rows)),
        *("--env", "docker", "--env-params", f'{{"image": "{IMAGE}", "pull": "never"}}'),
        env=variables,
    )
    assert "1/1 tasks evaluated" in ended.expect(0).stdout


async def test_an_engine_that_wants_another_certificate_is_named(
    tls_engine: OwnEngine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name, value in tls_engine.variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("DOCKER_CERT_PATH", str(tmp_path))
    engine_at.cache_clear()
    with pytest.raises(UsageError, match=f"DOCKER_CERT_PATH .{tmp_path}. lacks"):
        await provider().preflight(EnvironmentSpec(id="docker"))
    monkeypatch.delenv("DOCKER_TLS_VERIFY")
    monkeypatch.delenv("DOCKER_CERT_PATH")
    engine_at.cache_clear()
    with pytest.raises(ServiceUnreachableError, match=f"no Docker engine answers at {tls_engine.address}"):
        await provider().preflight(EnvironmentSpec(id="docker"))
    engine_at.cache_clear()


@pytest.fixture
def on_quotas(tls_engine: OwnEngine, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    if not tls_engine.on_quotas:
        pytest.skip("no btrfs can be mounted here")
    for name, value in tls_engine.variables.items():
        monkeypatch.setenv(name, value)
    engine_at.cache_clear()
    yield
    engine_at.cache_clear()


@pytest.mark.usefixtures("on_quotas")
async def test_a_limit_of_storage_ends_commands_and_not_the_sandbox() -> None:
    """Nothing can be written any more, by us neither."""
    spec = EnvironmentSpec(id="docker", resources={"storage_mb": 32})
    environment = provider()
    await environment.preflight(spec)
    session = await environment.open(open_request(spec=spec))
    try:
        assert not (await session.exec("head -c 100000000 /dev/zero > /full")).ok
        said = await session.exec("wc -c < /full; echo more > /more; echo status $?; echo told >&2")
        size, status = said.stdout.text.split("\n")[:2]
        assert int(size) < 32 * 1024**2 and status == "status 1"
        assert "Disk quota exceeded" in said.stderr.text and said.stderr.text.endswith("told\n")
        assert await session.end_all_processes() == 0
        assert (await session.exec("rm -f /full; echo on")).stdout.text == "on\n"
        await session.write("kept", b"kept")
        assert await session.read("kept") == b"kept"
        await session.exec("head -c 100000000 /dev/zero > /full")
    finally:
        await environment.close(session.handle)
    assert session.handle.id not in {record.handle.id for record in await environment.list_environments()}


@pytest.mark.usefixtures("on_quotas")
async def test_an_agent_that_fills_the_disk_ends_with_its_status_once_there_is_room() -> None:
    """Of the engine itself: the record of its end cannot be written when it ends."""
    environment = provider()
    session = await environment.open(open_request())
    try:
        await session.start_process("agent", "cat /dev/zero > /full; exit 7")

        async def is_full() -> bool:
            return not (await session.exec("pidof cat")).ok

        await eventually(is_full, "the disk is full")
        assert (await session.exec("rm -f /full; echo on")).stdout.text == "on\n"

        async def ended() -> bool:
            status = await session.process_status("agent")
            return status is not None and status.returncode == 7

        await eventually(ended, "the agent's end is recorded")
    finally:
        await environment.close(session.handle)


class TestSsh:
    @pytest.fixture
    def host(self, ssh: SshServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
        found = ssh_variables(ssh)
        monkeypatch.setenv("PATH", found["PATH"])
        engine_at.cache_clear()
        yield found["DOCKER_HOST"]
        engine_at.cache_clear()

    async def test_a_connection_that_broke_off_is_made_again(self, host: str) -> None:
        environment = provider(host=host)
        session = await environment.open(open_request())
        try:
            for connection in running_with(sockets(os.getpid())):
                await asyncio.to_thread(kill_and_wait, connection)
            assert (await session.exec("echo on")).stdout.text == "on\n"
        finally:
            await environment.close(session.handle)

    def test_a_killed_worker_leaves_no_connection(self, host: str) -> None:
        script = (
            "import sys\nfrom agentcompass.plugins.environments.docker.engine import Engine\n"
            f"Engine({host!r}, 60).info()\nprint('ready', flush=True)\nsys.stdin.read()\n"
        )
        worker = subprocess.Popen(
            [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert worker.stdout is not None and worker.stdout.readline() == b"ready\n"
        assert running_with(sockets(worker.pid))
        worker.send_signal(signal.SIGKILL)
        worker.communicate()
        wait_for("the end of its connection", lambda: not running_with(sockets(worker.pid)))

    @pytest.mark.parametrize(
        ("change", "said"),
        [
            (lambda host: host.replace("127.0.0.1", "localhost"), "Host key verification failed"),
            (
                lambda host: host.replace("ssh://", "ssh://nobody-of-this-name@").replace("root@", ""),
                "Permission denied",
            ),
        ],
    )
    async def test_what_ssh_says_is_told(self, host: str, change, said: str) -> None:  # type: ignore[no-untyped-def]
        with pytest.raises(ServiceUnreachableError, match=said):
            await provider(host=change(host)).preflight(EnvironmentSpec(id="docker"))

    async def test_a_password_in_the_address_is_refused(self) -> None:
        with pytest.raises(UsageError, match="without a password"):
            provider(host="ssh://user:secret@host")

    @pytest.mark.parametrize("host", ["ssh://host:abc", "ssh://host:70000", "ssh://[host"])
    async def test_an_address_that_cannot_be_read_is_refused(self, host: str) -> None:
        with pytest.raises(UsageError, match=r"ssh://\[USER@\]HOST\[:PORT\]"):
            SshTunnel(host)


def sockets(pid: int) -> str:
    """Part of the command line of a worker's connection."""
    return f"agentcompass-ssh-{pid}-"
