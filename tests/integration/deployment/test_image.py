"""The image is built, serves a queue as a container, and is stopped politely."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import http.server
import json
import os
import shutil
import subprocess
import tempfile
import threading
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from base_image import import_base_image, reason_for_no_engine, remove_images, wheels
from cluster import Cluster, free_port
from command_line import wait_for
from passing_on import passing_on

import agentcompass
from agentcompass.contracts.search_attributes import LAUNCH
from agentcompass.contracts.workflows import ATTEMPT_WORKFLOW

ROOT = Path(agentcompass.__file__).resolve().parent
REASON = reason_for_no_engine()

if REASON and os.environ.get("CI") and shutil.which("dockerd"):
    raise RuntimeError(f"CI has a Docker engine, but {REASON}")
pytestmark = pytest.mark.skipif(bool(REASON), reason=REASON)


def docker(*arguments: str) -> str:
    done = subprocess.run(["docker", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"docker {' '.join(arguments)}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout.strip()


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *arguments: object) -> None:
        """Says nothing."""


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The image, built from deploy/Dockerfile with the packages that pip finds here."""
    folder = tmp_path_factory.mktemp("image")
    mark = uuid.uuid4().hex[:8]
    base, stage, tag = (f"agentcompass-test-{name}:{mark}" for name in ("base", "build", "worker"))
    import_base_image(folder, base)
    try:
        with wheels(folder, f"{ROOT}[encryption]") as house:
            handler = functools.partial(_Quiet, directory=str(house))
            with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
                threading.Thread(target=server.serve_forever, daemon=True).start()
                packages = f"http://127.0.0.1:{server.server_address[1]}/"
                settings = {
                    "BASE_IMAGE": base,
                    "PIP_NO_INDEX": "1",
                    "PIP_FIND_LINKS": packages,
                    "EXTRAS": "encryption",
                }
                arguments = [item for pair in settings.items() for item in ("--build-arg", "=".join(pair))]
                file = str(ROOT / "deploy" / "Dockerfile")
                command = ("build", "--network", "host", "--file", file, *arguments)
                # The first stage by a name, too, or it would stay behind as an image without one.
                docker(*command, "--target", "build", "--tag", stage, str(ROOT))
                docker(*command, "--tag", tag, str(ROOT))
                server.shutdown()
        yield tag
    finally:
        remove_images(tag, stage, base)


@pytest.fixture
def shared() -> Iterator[Path]:
    """A folder under the same path here and in the container, whose user is another one."""
    with tempfile.TemporaryDirectory(prefix="agentcompass-shared-") as folder:
        Path(folder).chmod(0o777)
        yield Path(folder)


@contextlib.contextmanager
def worker_container(
    image: str, cluster: Cluster, shared: Path, *, address: str, network: Sequence[str], port: int
) -> Iterator[str]:
    """A worker of the cluster that reaches its server at ``address``; its name."""
    name = f"agentcompass-test-{uuid.uuid4().hex[:8]}"
    variables = {
        "TEMPORAL_ADDRESS": address,
        "TEMPORAL_NAMESPACE": cluster.command_line.env["TEMPORAL_NAMESPACE"],
    }
    given = [item for pair in variables.items() for item in ("--env", "=".join(pair))]
    options = ("--detach", "--init", *network, "--read-only", "--cap-drop", "ALL", "--name", name)
    places = (
        "--volume",
        f"{shared}:{shared}",
        "--tmpfs",
        "/tmp",
        "--tmpfs",
        "/home/agentcompass:uid=10001",
    )
    flags = ("--task-queue", cluster.queue, "--health-address", f"127.0.0.1:{port}", "--drain-seconds", "5")
    docker("run", *options, *given, *places, image, "worker", *flags)
    try:
        yield name
    finally:
        subprocess.run(["docker", "rm", "--force", name], capture_output=True, check=False)


@pytest.fixture
def container(image: str, cluster: Cluster, shared: Path) -> Iterator[tuple[str, int]]:
    """A worker of the cluster on the network of this machine; its name and the port of its health."""
    network, port = ("--network", "host"), free_port()
    with worker_container(
        image, cluster, shared, address=cluster.address, network=network, port=port
    ) as name:
        yield name, port


@pytest.fixture
def network(cluster: Cluster) -> Iterator[tuple[str, str]]:
    """A network of containers, and where the cluster's server is found from it.

    The server listens on this machine's loopback only, so somebody on the network's gateway passes bytes on.
    """
    name = f"agentcompass-test-{uuid.uuid4().hex[:8]}"
    docker("network", "create", name)
    try:
        gateway = json.loads(docker("network", "inspect", name))[0]["IPAM"]["Config"][0]["Gateway"]
        with passing_on(gateway, cluster.address) as port:
            yield name, f"{gateway}:{port}"
    finally:
        docker("network", "rm", name)


def test_image_runs_as_a_user_without_rights_and_knows_its_version(image: str) -> None:
    assert (
        docker("run", "--rm", "--network", "none", image, "--version")
        == f"agentcompass {agentcompass.__version__}"
    )
    assert docker("run", "--rm", "--network", "none", "--entrypoint", "id", image, "-u") == "10001"
    settings = json.loads(docker("inspect", image))[0]["Config"]
    assert (settings["User"], settings["StopSignal"]) == ("10001:10001", "SIGTERM")
    assert settings["Healthcheck"]["Test"][0] == "CMD"


def test_container_serves_a_queue_and_drains_when_it_is_stopped(
    cluster: Cluster, container: tuple[str, int], shared: Path
) -> None:
    name, _ = container
    (shared / "tasks.jsonl").write_text('{"id": "q1", "question": "2 + 2?", "answer": "4"}\n')
    dataset = json.dumps({"path": str(shared / "tasks.jsonl")})
    run = ("run", "qa", "oracle", "none", "--benchmark-params", dataset, "--progress", "none")
    ended = cluster.command_line.run(*run, "--results-dir", str(shared / "results")).expect(0)
    assert "1/1 tasks evaluated" in ended.stdout
    docker("stop", "--time", "60", name)
    state = json.loads(docker("inspect", name))[0]["State"]
    assert state["ExitCode"] == 0, "SIGTERM drained it; killed would be 137"
    logs = subprocess.run(["docker", "logs", name], capture_output=True, text=True, check=False)
    assert "draining" in logs.stderr


def test_two_containers_on_a_network_share_the_attempts_of_one_launch(
    image: str, cluster: Cluster, network: tuple[str, str], shared: Path
) -> None:
    count = 24
    rows = [{"id": f"q{number}", "question": "?", "answer": str(number)} for number in range(count)]
    (shared / "tasks.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    name, address = network
    with contextlib.ExitStack() as stack:
        workers = [
            stack.enter_context(
                worker_container(
                    image, cluster, shared, address=address, network=("--network", name), port=8080
                )
            )
            for _ in range(2)
        ]
        for worker in workers:
            wait_for(f"{worker} to serve", lambda worker=worker: "serving task queue" in logs_of(worker))
        dataset = json.dumps({"path": str(shared / "tasks.jsonl")})
        run = ("run", "qa", "oracle", "none", "--benchmark-params", dataset, "--progress", "none", "--json")
        results = ("--results-dir", str(shared / "results"), "--task-concurrency", "8")
        ended = cluster.command_line.run(*run, *results).expect(0).json
        [request] = ended["requests"]
        assert (request["evaluated_tasks"], request["value"]) == (count, 1.0)
        identities = asyncio.run(workers_of_attempts(cluster, ended["launch_id"]))
        hosts = {docker("inspect", "--format", "{{.Config.Hostname}}", worker) for worker in workers}
        assert {identity.partition("@")[2] for identity in identities} == hosts


def logs_of(name: str) -> str:
    return subprocess.run(["docker", "logs", name], capture_output=True, text=True, check=False).stderr


async def workers_of_attempts(cluster: Cluster, launch_id: str) -> set[str]:
    """The identities of the workers that took steps of a launch's attempts."""
    client = await cluster.client()
    query = f"WorkflowType = '{ATTEMPT_WORKFLOW}' AND {LAUNCH} = '{launch_id}'"
    return {
        event.workflow_task_started_event_attributes.identity
        async for item in client.list_workflows(query)
        for event in (await client.get_workflow_handle(item.id).fetch_history()).events
        if event.HasField("workflow_task_started_event_attributes")
    }


def test_health_check_of_the_image_asks_the_worker(container: tuple[str, int], image: str) -> None:
    name, port = container
    [test] = [json.loads(docker("inspect", image))[0]["Config"]["Healthcheck"]["Test"][1:]]
    command = [part.replace(":8080", f":{port}") for part in test]
    wait_for(
        "health",
        lambda: subprocess.run(["docker", "exec", name, *command], capture_output=True).returncode == 0,
    )
