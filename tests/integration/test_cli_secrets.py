"""The canary: a random key goes through everything, then it is searched for everywhere.

The model endpoint repeats the key in answers and errors, as real ones do. Given as ``${VAR}`` the
key must be found nowhere, written out it may be in its own private file and nowhere else.
"""

from __future__ import annotations

import asyncio
import base64
import json
import secrets
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

import pytest
from canaries import fetch_histories, found_in, holders
from command_line import CommandLine, processes_of, wait_for
from gated_runs import make_command_line

from agentcompass.contracts.workflows import NAMESPACE

VARIABLE = "CANARY_KEY"
MODEL_SERVER = Path(__file__).parents[1] / "support" / "model_server.py"


@dataclass
class Canary:
    """A key that went through runs, and where it may have left traces."""

    key: str
    command_line: CommandLine
    outputs: dict[str, str] = field(default_factory=dict)
    """Standard output and error by command."""

    def run(self, *arguments: str, code: int) -> str:
        ended = self.command_line.run(*arguments).expect(code)
        self.outputs[" ".join(arguments[:2])] = ended.stdout + ended.stderr
        return ended.stdout

    @property
    def launches(self) -> list[str]:
        """Ids of the launches of this canary: the benchmark ``command``, then ``qa``."""
        infos = [json.loads((path / "run_info.json").read_bytes()) for path in self.command_line.run_dirs]
        return [info["launch_id"] for info in infos]


@pytest.fixture(scope="module", params=["reference", "literal"])
def canary(
    request: pytest.FixtureRequest, embedded_home: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Canary]:
    """A server, workers and commands that were all started with the key in reach."""
    key = f"canary/{secrets.token_urlsafe(12)}+{secrets.token_urlsafe(12)}="
    command_line = make_command_line(embedded_home, tmp_path_factory.mktemp("canary"))
    given = key
    if request.param == "reference":
        command_line.env[VARIABLE] = key
        given = f"${{{VARIABLE}}}"
    command_line.run("server", "stop").expect(0)  # the next one is started with the key in its surroundings
    canary = Canary(key, command_line)
    with model_server(key, command_line.folder) as base_url:
        run_everything(canary, [*("--model-base-url", base_url), *("--model-api-key", given)])
    wait_for("the workers' leaving", lambda: not processes_of(embedded_home))
    yield canary
    command_line.end_all()


class model_server:
    """The scripted endpoint in a process of its own: it repeats the key in answers and errors."""

    def __init__(self, key: str, folder: Path) -> None:
        encoded = base64.b64encode(f"user:{key}".encode()).decode()
        said = f"Your key is {key}, in an address {quote(key, safe='')}, and in base64 {encoded}."
        refusal = {"status": 400, "message": f"cannot serve {key}", "code": "bad_request"}
        rules = [
            {"contains": "repeat", "replies": [{"content": said, "reasoning": said}]},
            {"contains": "refuse", "replies": [refusal]},
            {"contains": "vanish", "replies": [{**refusal, "status": 404, "code": "unknown_url"}]},
            {"contains": "stumble", "replies": [{"status": 503, "message": said}, {"content": "4"}]},
        ]
        self._script = folder / "script.json"
        self._script.write_text(json.dumps({"rules": rules}), encoding="utf-8")
        self._command = [sys.executable, str(MODEL_SERVER), "--port", "0", "--script", str(self._script)]
        self._command += ["--api-key", key]

    def __enter__(self) -> str:
        self._process = subprocess.Popen(self._command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        return self._process.stdout.readline().split()[-1]

    def __exit__(self, *exc: object) -> None:
        self._process.send_signal(signal.SIGINT)
        self._process.communicate(timeout=30)
        self._script.unlink()  # it holds the key, and the folder is searched


def run_everything(canary: Canary, model: list[str]) -> None:
    command_line = canary.command_line
    questions = [
        {"id": "repeat", "question": "please repeat", "answer": "4"},
        {"id": "refuse", "question": "please refuse", "answer": "4"},
        {"id": "vanish", "question": "please vanish", "answer": "4"},
        {"id": "stumble", "question": "please stumble", "answer": "4"},
    ]
    dataset = command_line.dataset(questions, "questions.jsonl")
    quick = ["--execution-params", '{"retry_min_delay_seconds": 0}', "--model-params", '{"temperature": 0}']
    asked = ["qa", "openai_chat", "model", *model, "--benchmark-params", dataset, *quick]
    canary.run("run", *asked, "--progress", "plain", "--max-retries", "1", code=1)

    told = command_line.folder / "environment.txt"
    command = f"env > {told}; cat /proc/self/environ >> {told}; env"
    commands = command_line.dataset([{"id": "environment", "command": command}], "commands.jsonl")
    canary.run("run", "command", "none", "model", *model, "--benchmark-params", commands, code=0)

    canary.run("run", *asked, "--dry-run", code=0)
    [asked_dir] = command_line.results.glob("*_qa_*/*")
    canary.run("summary", str(asked_dir), code=1)
    canary.run("status", canary.launches[0], "--json", code=0)
    canary.run("attach", canary.launches[-1], code=1)


def test_key_was_used_and_repeated_by_the_endpoint(canary: Canary) -> None:
    """Or the other tests would find nothing because there was nothing."""
    details = [path for run_dir in canary.command_line.run_dirs for path in (run_dir / "details").iterdir()]
    texts = {path.stem: path.read_text(encoding="utf-8") for path in details}
    assert "Your key is ***, in an address ***, and in base64 " in texts["repeat"]
    assert "cannot serve ***" in texts["_error_refuse"] and "cannot serve ***" in texts["_error_vanish"]
    assert json.loads(texts["stumble"])["attempts"]["1"]["metrics"] == {"correct": True}


def test_key_is_in_no_file_of_the_run_directories_and_no_output(canary: Canary) -> None:
    assert holders(canary.command_line.folder, canary.key) == []
    assert [name for name, text in canary.outputs.items() if found_in(text.encode(), canary.key)] == []


def test_key_is_in_no_file_of_the_home(canary: Canary) -> None:
    """Database, write-ahead log, logs of server and workers, states; a literal's own file went with its launch."""
    home = canary.command_line.home
    assert b"/".join([b"launch", canary.launches[0].encode()]) in database(home), "the search finds nothing"
    assert holders(home, canary.key) == []


def database(home: Path) -> bytes:
    return b"".join(path.read_bytes() for path in (home / "server").glob("temporal.db*"))


def test_key_is_in_no_history_as_clients_see_it(canary: Canary) -> None:
    histories = asyncio.run(fetch_histories(canary.command_line.server_port, canary.launches))
    assert len(histories) >= 9  # two launches, two requests, five attempts
    assert [name for name, data in histories.items() if found_in(data, canary.key)] == []


def test_key_is_not_told_by_the_web_interface(canary: Canary) -> None:
    [port] = [ui_port(canary.command_line.home)]
    for launch in canary.launches:
        name = quote(f"launch/{launch}", safe="")
        for part in ("", "/history"):
            url = f"http://127.0.0.1:{port}/api/v1/namespaces/{NAMESPACE}/workflows/{name}{part}"
            with urllib.request.urlopen(url, timeout=30) as answer:
                data = answer.read()
            assert launch.encode() in data and found_in(data, canary.key) == []


def ui_port(home: Path) -> int:
    state = json.loads((home / "server" / "state.json").read_bytes())
    port: int = state["ui_port"]
    return port


def test_key_is_not_in_the_environment_of_commands_in_a_sandbox(canary: Canary) -> None:
    told = (canary.command_line.folder / "environment.txt").read_bytes()
    assert b"PATH=" in told
    assert VARIABLE.encode() not in told and found_in(told, canary.key) == []


def test_key_is_not_in_the_environment_of_the_server(canary: Canary) -> None:
    variables = Path(f"/proc/{canary.command_line.server_pid}/environ").read_bytes()
    assert b"PATH=" in variables
    assert VARIABLE.encode() not in variables and found_in(variables, canary.key) == []
