"""Bad input through the real command line: one message that says what to change, nothing written."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from command_line import CommandLine, Ended
from gated_runs import make_command_line

ROWS = [{"id": "q1", "question": "2 + 2?", "answer": "4"}]
USAGE, UNREACHABLE = 2, 3


@dataclass(frozen=True)
class Case:
    """A command line that cannot work, and what its message must say."""

    arguments: Callable[[CommandLine], list[str]]
    says: list[str]
    code: int = USAGE
    env: dict[str, str] = field(default_factory=dict)


def qa(*options: str, rows: list[dict[str, str]] = ROWS) -> Callable[[CommandLine], list[str]]:
    """A run of ``qa`` that would work but for ``options``, or for its ``rows``."""
    return lambda cli: ["run", "qa", "oracle", "none", "--benchmark-params", cli.dataset(rows), *options]


def run(*arguments: str) -> Callable[[CommandLine], list[str]]:
    return lambda cli: ["run", *arguments]


def with_params(params: str) -> Callable[[CommandLine], list[str]]:
    return run("qa", "oracle", "none", "--benchmark-params", params)


def closed_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


NOWHERE = f"127.0.0.1:{closed_port()}"


def results_under_a_file(cli: CommandLine) -> list[str]:
    (cli.folder / "taken").touch()
    return qa("--results-dir", "taken/results")(cli)


def existing_run_id(cli: CommandLine) -> list[str]:
    """A run of the name exists; its results are in another directory than those that must not be made."""
    arguments = qa("--results-dir", "before", "--run-id", "mine")(cli)
    cli.run(*arguments).expect(0)
    return arguments


def plugin(cli: CommandLine, entry: str, **modules: str) -> None:
    """Install an extension of a few lines."""
    folder = cli.folder / "plugins"
    metadata = folder / "broken_thing-1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: broken-thing\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(f"[agentcompass.plugins]\nbroken = {entry}\n")
    for name, text in modules.items():
        (folder / f"{name}.py").write_text(text)
    cli.env["PYTHONPATH"] = f"{folder}:{cli.env['PYTHONPATH']}"


REGISTER = 'def register(registry):\n    registry.benchmark("broken", "broken_benchmark:Broken")\n'
LOADING_FAILS = """
from agentcompass.contracts import Benchmark

class Broken(Benchmark):
    id = "broken"
    async def load_tasks(self, request):
        raise RuntimeError("the moon is in the wrong phase")
    async def evaluate(self, *arguments):
        raise AssertionError("never called")
"""


def plugin_not_importable(cli: CommandLine) -> list[str]:
    plugin(cli, "broken_plugin:register", broken_plugin="raise RuntimeError('no licence found')\n")
    return ["run", "broken", "oracle", "none"]


def benchmark_not_importable(cli: CommandLine) -> list[str]:
    plugin(
        cli,
        "broken_plugin:register",
        broken_plugin=REGISTER,
        broken_benchmark="import a_package_that_is_not_installed\n",
    )
    return ["run", "broken", "oracle", "none"]


def tasks_not_loadable(cli: CommandLine) -> list[str]:
    plugin(cli, "broken_plugin:register", broken_plugin=REGISTER, broken_benchmark=LOADING_FAILS)
    return ["run", "broken", "oracle", "none"]


def launch_with_a_missing_file(cli: CommandLine) -> list[str]:
    """The first request of the launch could run."""
    plan = {
        "version": 1,
        "defaults": {"harness": {"id": "oracle"}, "model": {"id": "none"}},
        "requests": [
            {"name": "one", "benchmark": {"id": "qa", **json.loads(cli.dataset(ROWS))}},
            {"name": "two", "benchmark": {"id": "qa", "path": "missing.jsonl"}},
        ],
    }
    (cli.folder / "plan.yaml").write_text(json.dumps(plan))
    return ["launch", str(cli.folder / "plan.yaml")]


def launch_of_another_version(cli: CommandLine) -> list[str]:
    (cli.folder / "plan.yaml").write_text("version: 2\nrequests: []\n")
    return ["launch", "plan.yaml", "--dry-run"]


def launch_of_records(cli: CommandLine) -> list[str]:
    cli.dataset(ROWS)
    return ["launch", "tasks.jsonl"]


CASES = {
    "unknown benchmark": Case(run("humanevl", "oracle", "none"), ["'humanevl'", "'humaneval'"]),
    "unknown harness": Case(run("qa", "oracel", "none"), ["'oracel'", "'oracle'"]),
    "unknown environment": Case(qa("--env", "host_proces"), ["'host_proces'", "'host_process'"]),
    "malformed JSON": Case(with_params('{"path": '), ["--benchmark-params", "JSON"]),
    "unknown parameter": Case(with_params('{"pth": "x"}'), ["pth", "path"]),
    "wrong type": Case(with_params('{"path": 5}'), ["--benchmark-params", "path", "5"]),
    "unknown flag": Case(qa("--task-concurency", "3"), ["--task-concurency", "--task-concurrency"]),
    "number out of range": Case(qa("--k", "0"), ["--k"]),
    "unset variable": Case(qa("--model-api-key", "${NOT_SET_ANYWHERE}"), ["NOT_SET_ANYWHERE", "not set"]),
    "missing configuration file": Case(qa("--config", "no.yaml"), ["no.yaml"]),
    "escaping run name": Case(qa("--run-name", "../above"), ["../above"]),
    "missing file": Case(with_params('{"path": "missing.jsonl"}'), ["missing.jsonl"]),
    "missing file of a later request": Case(
        launch_with_a_missing_file, ["request 'two'", "path", "missing.jsonl", "does not exist"]
    ),
    "empty file": Case(qa(rows=[]), ["tasks.jsonl"]),
    "repeated ids": Case(qa(rows=[*ROWS, *ROWS]), ["tasks.jsonl:2", "'q1'", "already used"]),
    "no task selected": Case(
        lambda cli: with_params(json.dumps({**json.loads(cli.dataset(ROWS)), "sample_ids": []}))(cli),
        ["sample_ids"],
    ),
    "unknown task selected": Case(
        lambda cli: with_params(json.dumps({**json.loads(cli.dataset(ROWS)), "sample_ids": ["q9"]}))(cli),
        ["'q9'"],
    ),
    "harness none for a benchmark that needs one": Case(
        lambda cli: ["run", "qa", "none", "none", "--benchmark-params", cli.dataset(ROWS)],
        ["'qa'", "harness"],
    ),
    "harness for a benchmark that needs none": Case(
        lambda cli: [
            *("run", "command", "oracle", "none", "--benchmark-params"),
            cli.dataset([{"id": "a", "command": "true"}]),
        ],
        ["'command'", "'none'", "'oracle'"],
    ),
    "results directory below a file": Case(results_under_a_file, ["taken", "not a directory"]),
    "existing run id": Case(existing_run_id, ["mine", "--run-id"]),
    "plugin that cannot be imported": Case(plugin_not_importable, ["'broken'", "no licence found"]),
    "benchmark that cannot be imported": Case(
        benchmark_not_importable, ["'broken'", "broken_benchmark:Broken", "a_package_that_is_not_installed"]
    ),
    "benchmark that cannot load its tasks": Case(
        tasks_not_loadable, ["'broken'", "the moon is in the wrong phase"]
    ),
    "unreachable model": Case(
        lambda cli: [
            *("run", "qa", "openai_chat", "m", "--benchmark-params", cli.dataset(ROWS)),
            *("--model-base-url", f"http://{NOWHERE}/v1", "--model-api-key", "k-123456"),
        ],
        ["'m'", NOWHERE],
        UNREACHABLE,
    ),
    "model without an endpoint": Case(
        lambda cli: ["run", "qa", "openai_chat", "m", "--benchmark-params", cli.dataset(ROWS)],
        ["'m'", "base_url"],
    ),
    "launch file of another version": Case(
        launch_of_another_version, ["plan.yaml:1", "version", "another version than 1", "given: 2"]
    ),
    "data instead of a launch file": Case(launch_of_records, ["tasks.jsonl", "record on each line"]),
    "unreachable Temporal": Case(
        qa(), [NOWHERE, "TEMPORAL_ADDRESS"], UNREACHABLE, {"TEMPORAL_ADDRESS": NOWHERE}
    ),
    "launch that is not there": Case(lambda cli: ["attach", "no-such-launch"], ["'no-such-launch'", "list"]),
}


def home_that_is_a_file(cli: CommandLine) -> list[str]:
    (cli.folder / "home").touch()
    cli.env["AGENTCOMPASS_HOME"] = str(cli.folder / "home")
    return ["list"]


def folder_in_place_of_the_configuration(cli: CommandLine) -> list[str]:
    (cli.folder / "agentcompass.yaml").mkdir()
    return ["config", "show"]


def schedule_into_a_file(cli: CommandLine) -> list[str]:
    (cli.folder / "taken").touch()
    cli.dataset([{"id": "a", "command": "true"}])
    request = {"benchmark": {"id": "command", "path": "tasks.jsonl"}, "harness": {"id": "none"}}
    plan = {"version": 1, "requests": [{"name": "one", "model": {"id": "none"}, **request}]}
    (cli.folder / "plan.yaml").write_text(json.dumps(plan))
    return [
        "schedule",
        "create",
        "into-a-file",
        "--cron",
        "0 0 29 2 *",
        "plan.yaml",
        "--results-dir",
        "taken",
    ]


CASES |= {
    "home that is a file": Case(home_that_is_a_file, ["AGENTCOMPASS_HOME", "home is a file"]),
    "folder in place of the configuration": Case(
        folder_in_place_of_the_configuration, ["agentcompass.yaml is a folder"]
    ),
    "schedule into a file": Case(schedule_into_a_file, ["results directory", "taken is not a directory"]),
    "environment that is none": Case(
        lambda cli: ["env", "release", "nope", "ac-q1-0123456789ab-a1-e1"], ["'nope'", "env list"]
    ),
    "variable with a NUL character": Case(
        qa("--env-params", json.dumps({"env_variables": {"A": "x\0secret-value"}})), ["value of A", "NUL"]
    ),
    "endpoint without a scheme": Case(
        lambda cli: ["doctor", "--model-base-url", "notaurl"], ["'notaurl' is not an http(s) URL"]
    ),
}


@dataclass(frozen=True)
class Tried:
    """What came of a case."""

    ended: Ended
    folder: Path


@pytest.fixture(scope="module")
def tried(embedded_home: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Tried]:
    """All cases, two at a time."""

    def try_out(name: str) -> Tried:
        case = CASES[name]
        cli = make_command_line(embedded_home, tmp_path_factory.mktemp("bad"))
        try:
            return Tried(cli.run(*case.arguments(cli), env=case.env), cli.folder)
        finally:
            cli.end_all()

    with ThreadPoolExecutor(2) as pool:
        return dict(zip(CASES, pool.map(try_out, CASES), strict=True))


@pytest.mark.parametrize("name", CASES)
def test_exit_code_and_one_message_that_says_what_to_change(name: str, tried: dict[str, Tried]) -> None:
    case, ended = CASES[name], tried[name].ended
    assert ended.code == case.code, ended.stderr
    assert len(ended.errors) == 1, ended.stderr
    message = ended.stderr[ended.stderr.index("Error:") :]
    for text in case.says:
        assert text in message
    assert "Traceback" not in ended.stderr + ended.stdout
    assert ended.stdout == ""


@pytest.mark.parametrize("name", CASES)
def test_nothing_is_written(name: str, tried: dict[str, Tried]) -> None:
    assert not (tried[name].folder / "results").exists()
    if name == "existing run id":
        assert [path.name for path in (tried[name].folder / "before").glob("*/*")] == ["mine"]
