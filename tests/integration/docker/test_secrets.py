"""A run with secrets in containers: then they are searched for in everything that there is of it.

While the agent works: in its container as a file archive, in what the engine tells of containers, images, networks and
events, in every process inside, and in the product's own listings, files and histories.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import docker
import pytest
from canaries import fetch_histories, found_in, holders
from command_line import CommandLine, processes_of, wait_for
from docker_engine import IMAGE, containers_of, require_engine
from gated_runs import make_command_line
from model_process import ModelProcess
from shell_agent import describe

from agentcompass.plugins.environments.docker.engine import Engine
from agentcompass.plugins.environments.docker.public_network import public_network

RUN = """
ask > /shared/answers
until [ -e /shared/end ]; do sleep 0.1; done
cat /shared/answers
"""


def fresh_secret(name: str) -> str:
    return f"{name}/{secrets.token_urlsafe(12)}+{secrets.token_urlsafe(12)}="


@dataclass
class Searched:
    """What was found while the agent worked, by where it was looked for."""

    hidden: dict[str, str]
    """Secrets that nobody may find: the model's key, and a variable of the evaluation."""
    handed_over: str
    """A variable that the user gives the agent on purpose."""
    command_line: CommandLine
    places: dict[str, bytes] = field(default_factory=dict)
    launch: str = ""
    image: str = ""

    def leaks(self, place: str, *names: str) -> list[str]:
        return [name for name in names if found_in(self.places[place], self.hidden[name])]


@pytest.fixture(scope="module")
def searched(embedded_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Searched]:
    client = require_engine()
    folder = tmp_path_factory.mktemp("secrets")
    line = make_command_line(embedded_home, folder)
    found = Searched(
        {"model key": fresh_secret("model"), "judge's token": fresh_secret("judge")},
        fresh_secret("agent"),
        line,
    )
    line.env |= {
        "THE_KEY": found.hidden["model key"],
        "JUDGE_TOKEN": found.hidden["judge's token"],
        "AGENT_TOKEN": found.handed_over,
    }
    try:
        _run(client, folder, found)
        wait_for("the worker's leaving", lambda: not processes_of(embedded_home))
        yield found
    finally:
        line.end_all()
        for left in containers_of(client, launch=found.launch or "none"):
            client.api.remove_container(left, force=True)
        if found.image:
            client.images.remove(found.image, force=True)


def _run(client: docker.DockerClient, folder: Path, found: Searched) -> None:
    shared, context = folder / "shared", folder / "context"
    for place in (shared, context):
        place.mkdir()
    (context / "Dockerfile").write_text(
        f"FROM {IMAGE}\nRUN echo {folder.name} > /built && env > /built.env\n"
    )
    environment = {
        "pull": "never",
        "mounts": [{"source": str(shared), "target": "/shared", "read_only": False}],
        "setup": {"build_context": str(context)},
        "env_variables": {"LEVEL": "debug"},
        "run_env_variables": {"AGENT_TOKEN": "${AGENT_TOKEN}"},
        "evaluation_env_variables": {"JUDGE_TOKEN": "${JUDGE_TOKEN}"},
    }
    gateway = public_network(Engine(None, 60)).bind_address
    key = found.hidden["model key"]
    replies = [{"content": "42"}]
    with ModelProcess(folder, [{"contains": "", "replies": replies}], api_key=key, host=gateway) as model:
        began = time.time()
        line = found.command_line
        running = line.start(
            *("run", "qa", "cli_agent", "m", "--model-base-url", model.base_url),
            *("--model-api-key", "${THE_KEY}", "--model-api-protocol", "openai-chat", "--progress", "plain"),
            *("--env", "docker", "--env-params", json.dumps(environment)),
            *("--harness-params", json.dumps({"description": str(describe(folder, RUN)), "proxy": {}})),
            *("--benchmark-params", line.dataset([{"id": "q", "question": "?", "answer": "42"}])),
        )
        found.launch = running.launch_id
        answers = shared / "answers"
        wait_for("the model's answer", lambda: answers.exists() and answers.read_text() == "42\n")
        [container] = containers_of(client, launch=found.launch)
        found.image = client.api.inspect_container(container)["Image"]
        found.places = looked_at(client, container, began)
        found.places["env list"] = line.run("env", "list", "--json").expect(0).stdout.encode()
        found.places["status"] = line.run("status", found.launch, "--json").expect(0).stdout.encode()
        found.places["histories"] = histories(line, found.launch)
        (shared / "end").touch()
        ended = running.wait().expect(0)
        found.places["output"] = (ended.stdout + ended.stderr).encode()
        found.places["histories at the end"] = histories(line, found.launch)


def histories(line: CommandLine, launch: str) -> bytes:
    return b"".join(asyncio.run(fetch_histories(line.server_port, [launch])).values())


def looked_at(client: docker.DockerClient, container: str, began: float) -> dict[str, bytes]:
    """Everything that the engine tells, and everything inside."""
    api = client.api
    facts = api.inspect_container(container)
    executions: list[Any] = [api.exec_inspect(one) for one in facts["ExecIDs"] or []]
    images = [
        image
        for image in api.images(all=True)
        if any("agentcompass" in tag for tag in image["RepoTags"] or [])
    ]
    images.append({"Id": facts["Image"]})
    events = list(client.events(since=int(began) - 1, until=int(time.time()) + 1, decode=True))
    processes = "cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline"
    return {
        "files of the container": b"".join(api.export(container)),
        "files of images": b"".join(piece for image in images for piece in api.get_image(image["Id"])),
        "facts of the container": dumped(facts, executions, api.containers(all=True)),
        "facts of images": dumped([(api.inspect_image(it["Id"]), api.history(it["Id"])) for it in images]),
        "networks and volumes": dumped(api.networks(), api.volumes()),
        "events": dumped(events),
        "processes from outside": dumped(api.top(container, ps_args="-eo pid,args")),
        "processes from inside": client.containers.get(container).exec_run(["sh", "-c", processes]).output,
    }


def dumped(*values: Any) -> bytes:
    return json.dumps(values, default=str).encode()


EVERYWHERE = [
    "files of the container",
    "files of images",
    "facts of the container",
    "facts of images",
    "networks and volumes",
    "events",
    "processes from outside",
    "processes from inside",
    "env list",
    "status",
    "output",
    "histories",
    "histories at the end",
]


@pytest.mark.parametrize("place", EVERYWHERE)
def test_no_key_is_found(searched: Searched, place: str) -> None:
    assert searched.places[place]
    assert searched.leaks(place, *searched.hidden) == []


@pytest.mark.parametrize("place", [place for place in EVERYWHERE if place != "processes from inside"])
def test_what_is_handed_to_the_agent_on_purpose_is_found_in_its_processes_only(
    searched: Searched, place: str
) -> None:
    assert found_in(searched.places["processes from inside"], searched.handed_over), (
        "the search finds nothing"
    )
    assert found_in(searched.places[place], searched.handed_over) == []


def test_no_key_is_in_a_file_of_the_run_or_of_the_home(searched: Searched) -> None:
    """Ledger, worker's log, database, build log, run directory."""
    line = searched.command_line
    (line.folder / "model_script.json").unlink(missing_ok=True)
    for secret in (*searched.hidden.values(), searched.handed_over):
        assert holders(line.folder, secret) == []
        assert holders(line.home, secret) == []


def test_the_search_sees_what_is_there(searched: Searched) -> None:
    """The agent's own token, its prompt, its labels: or the other tests would find nothing for lack of sight."""
    places = searched.places
    assert b"OWN_KEY=ac-" in places["processes from inside"]
    assert (
        b"AGENTCOMPASS_DEADLINE" in places["processes from inside"]
        or b"LEVEL=debug" in places["processes from inside"]
    )
    for place in ("facts of the container", "env list", "histories", "events"):
        assert searched.launch.encode() in places[place]
    assert searched.command_line.folder.name.encode() in places["files of images"]
    assert b"body.json" in places["files of the container"]
    assert b"ask()" in places["processes from outside"]
