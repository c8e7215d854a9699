"""Analyzers of a run: after the score, beside the work, and without any say in it."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from command_line import CommandLine, Ended, Running, kill_and_wait, wait_for
from run_directory import assert_progress_is_whole, events
from temporalio.client import Client

from agentcompass.cli.embedded_server import EmbeddedServer
from agentcompass.contracts.workflows import launch_workflow_id

PACKAGE = Path(__file__).parents[1] / "support" / "analyzer_package"
TASKS = 60
"""More than one batch of an analysis."""


@pytest.fixture
def command_line(embedded_home: Path, tmp_path: Path) -> Iterator[CommandLine]:
    """A command line that finds the misbehaving analyzers."""
    path = os.pathsep.join(filter(None, [str(PACKAGE), os.environ.get("PYTHONPATH", "")]))
    made = CommandLine(embedded_home, tmp_path, {**os.environ, "PYTHONPATH": path})
    yield made
    made.end_all()


def start(command_line: CommandLine, *options: str, tasks: int = TASKS) -> Running:
    lines = [{"id": f"q{n}", "question": "1 + 1?", "answer": "2"} for n in range(tasks)]
    return command_line.start(
        *("run", "qa", "nop", "none", "--env", "host_process", "--json", "--progress", "plain"),
        *("--benchmark-params", command_line.dataset(lines)),
        *options,
    )


def run(command_line: CommandLine, *options: str, tasks: int = TASKS) -> Path:
    ended = start(command_line, *options, tasks=tasks).wait().expect(0)
    return run_dir_of(ended)


def run_dir_of(ended: Ended) -> Path:
    return Path(ended.json["requests"][0]["run_dir"])


def records(run_dir: Path) -> dict[str, Any]:
    """The only attempt of every task, by task."""
    loaded = [json.loads(path.read_bytes()) for path in (run_dir / "details").iterdir()]
    return {record["task_id"]: record["attempts"]["1"] for record in loaded}


def without_analysis(run_dir: Path) -> dict[str, Any]:
    left_out = ("analysis_result", "meta")  # the other one holds times
    return {
        task: {name: value for name, value in record.items() if name not in left_out}
        for task, record in records(run_dir).items()
    }


def params(**analyzers: Any) -> str:
    return json.dumps({"analyzers": list(analyzers), "params": analyzers})


def activities_of_request(home: Path, ended: Ended) -> set[str]:
    """Names of the activities that the request workflow had carried out, but for local ones."""

    async def fetch() -> set[str]:
        info = await EmbeddedServer(home).ensure()
        client = await Client.connect(info.address, namespace=info.namespace)
        workflow_id = f"{launch_workflow_id(ended.json['launch_id'])}/{ended.json['requests'][0]['key']}"
        history = client.get_workflow_handle(workflow_id).fetch_history_events()
        return {
            event.activity_task_scheduled_event_attributes.activity_type.name
            async for event in history
            if event.HasField("activity_task_scheduled_event_attributes")
        }

    return asyncio.run(fetch())


def test_every_attempt_gets_the_findings_of_the_basic_set(command_line: CommandLine) -> None:
    run_dir = run(command_line)
    empty = {"label": "empty_answer", "value": None, "details": {"agent_steps": 0, "status": "completed"}}
    expected = {
        "exceptions": {"findings": [], "error": None},
        "empty_output": {"findings": [empty], "error": None},
        "latency": {"findings": [], "error": None},
    }
    found = records(run_dir)
    assert len(found) == TASKS
    assert all(record["analysis_result"] == expected for record in found.values())
    summary = json.loads((run_dir / "analysis_summary.json").read_bytes())
    assert (summary["attempts"], summary["analyzed_attempts"]) == (TASKS, TASKS)
    assert f"| empty_answer | {TASKS} | 100.0 % |" in (run_dir / "analysis_summary.md").read_text()


def test_a_failing_analyzer_changes_nothing_but_its_own_entry(command_line: CommandLine) -> None:
    off = run(command_line, "--no-enable-analysis")
    on = run(command_line, "--analysis-params", params(raising={"message": "boom"}, empty_output={}))
    assert without_analysis(on) == without_analysis(off)
    assert json.loads((on / "metrics.json").read_bytes()) == json.loads((off / "metrics.json").read_bytes())
    for record in records(on).values():
        assert record["analysis_result"]["raising"] == {"findings": [], "error": "RuntimeError: boom"}
        assert len(record["analysis_result"]["empty_output"]["findings"]) == 1
    assert json.loads((on / "run_info.json").read_bytes())["status"] == "completed"
    text = (on / "analysis_summary.md").read_text()
    assert f"**Failed on {TASKS} of {TASKS} attempts**: RuntimeError: boom" in text


def test_analysis_that_is_off_costs_nothing(command_line: CommandLine) -> None:
    for options in (["--no-enable-analysis"], ["--analysis-params", '{"analyzers": []}']):
        ended = start(command_line, *options, tasks=3).wait().expect(0)
        assert activities_of_request(command_line.home, ended) == {"prepare_request", "finalize_request"}
        assert not list(run_dir_of(ended).glob("analysis_summary.*"))


def test_attempts_are_finished_and_on_disk_while_an_analyzer_still_works(command_line: CommandLine) -> None:
    gate = command_line.folder / "gate"
    running = start(command_line, "--analysis-params", params(waiting={"file": str(gate)}))
    wait_for("the records of all tasks", lambda: _are_recorded(command_line, TASKS))
    [run_dir] = command_line.run_dirs
    assert all(record["metrics"] == {"correct": False} for record in records(run_dir).values())
    assert all(record["analysis_result"] == {} for record in records(run_dir).values())
    gate.touch()
    running.wait().expect(0)
    assert all("waiting" in record["analysis_result"] for record in records(run_dir).values())


def test_a_stop_during_the_last_analysis_ends_the_analysis_and_not_the_run(command_line: CommandLine) -> None:
    gate = command_line.folder / "gate"
    running = start(command_line, "--analysis-params", params(waiting={"file": str(gate)}), tasks=3)
    wait_for("the analyzer", Path(f"{gate}.begun").exists)
    command_line.run("cancel", running.launch_id).expect(0)
    run_dir = run_dir_of(running.wait().expect(0))
    assert json.loads((run_dir / "run_info.json").read_bytes())["status"] == "completed"
    assert len(records(run_dir)) == 3
    assert not (run_dir / "analysis_summary.json").exists()


def test_a_worker_killed_during_an_analysis_costs_no_attempt_and_no_finding(
    command_line: CommandLine,
) -> None:
    gate, config = command_line.folder / "gate", command_line.folder / "quick.yaml"
    config.write_text("runtime: {heartbeat_timeout_seconds: 4}\n")
    analysis = params(waiting={"file": str(gate)})
    running = start(command_line, "--analysis-params", analysis, "--config", str(config), tasks=3)
    wait_for("the analyzer", Path(f"{gate}.begun").exists)
    wait_for("the records of all tasks", lambda: _are_recorded(command_line, 3))
    [run_dir] = command_line.run_dirs
    before = without_analysis(run_dir)
    kill_and_wait(running.worker_pid)
    gate.touch()
    running.wait().expect(0)
    assert without_analysis(run_dir) == before
    assert all("waiting" in record["analysis_result"] for record in records(run_dir).values())
    assert sum(event["event"] == "attempt_started" for event in events(run_dir)) == 3


def test_an_analysis_afterwards_goes_into_a_copy(command_line: CommandLine) -> None:
    run_dir = run(command_line, "--no-enable-analysis", tasks=3)
    before = _contents(run_dir)
    ended = command_line.run("analysis", "--input", str(run_dir), "--json").expect(0)
    copy = Path(ended.json["run_dir"])
    assert copy.parent == run_dir.parent
    assert copy.name.startswith(f"{run_dir.name}_analysis_")
    assert _contents(run_dir) == before
    assert without_analysis(copy) == without_analysis(run_dir)
    assert all(set(record["analysis_result"]) for record in records(copy).values())
    assert ended.json["summary"] == json.loads((copy / "analysis_summary.json").read_bytes())
    for name in ("run_info.json", "params.json", "metrics.json", "summary.md"):
        assert (copy / name).read_bytes() == (run_dir / name).read_bytes()
    _assert_progress_tells_of_the_analysis(copy, run_dir.name)


def test_a_damaged_record_costs_its_own_task_only(command_line: CommandLine) -> None:
    run_dir = run(command_line, "--no-enable-analysis", tasks=3)
    damaged = sorted((run_dir / "details").glob("*.json"))[0]
    damaged.write_text('{"task_id": ')
    ended = command_line.run("analysis", "--input", str(run_dir), "--json").expect(1)
    assert "the record of task 'q0' cannot be read" in ended.stderr
    assert [item["task_id"] for item in ended.json["damaged"]] == ["q0"]
    copy = Path(ended.json["run_dir"])
    others = [path for path in (copy / "details").glob("*.json") if path.name != damaged.name]
    found = [json.loads(path.read_bytes())["attempts"]["1"]["analysis_result"] for path in others]
    assert len(found) == 2 and all(found)


def test_an_analysis_can_go_into_the_run_itself(command_line: CommandLine) -> None:
    run_dir = run(command_line, tasks=3)
    scores = without_analysis(run_dir)
    options = (
        "--analyzer",
        "raising",
        "--analysis-params",
        '{"params": {"raising": {"message": "${TEXT}"}}}',
    )
    ended = command_line.run(
        "analysis", "--input", str(run_dir), "--override", *options, env={"TEXT": "boom"}
    ).expect(1)
    assert f"Run directory: {run_dir}" in ended.stdout
    assert "raising: FAILED 3: RuntimeError: boom" in ended.stdout
    assert without_analysis(run_dir) == scores
    for record in records(run_dir).values():
        assert set(record["analysis_result"]) == {"exceptions", "empty_output", "latency", "raising"}
    _assert_progress_tells_of_the_analysis(run_dir, run_dir.name)


def test_what_cannot_be_analysed_is_refused_and_nothing_is_written(command_line: CommandLine) -> None:
    run_dir = run(command_line, tasks=1)
    (command_line.folder / "taken").mkdir()
    before = _contents(command_line.results)
    for options, message in [
        (["--analyzer", "exeptions"], "unknown analyzer 'exeptions'; did you mean 'exceptions'"),
        (["--analysis-params", '{"analyzer": []}'], "unknown key 'analyzer'; did you mean 'analyzers'?"),
        (["--analysis-params", "{"], "--analysis-params"),
        (["--analysis-params", '{"analyzers": []}'], "no analyzer applies to benchmark 'qa'"),
        (["--override", "--output", "x"], "--override writes into the run itself"),
        (["--output", "taken"], "taken exists already"),
    ]:
        ended = command_line.run("analysis", "--input", str(run_dir), *options).expect(2)
        [error] = ended.errors
        assert message in error
    ended = command_line.run("analysis", "--input", "nowhere").expect(2)
    assert "nowhere is not a directory" in ended.errors[0]
    assert _contents(command_line.results) == before


def _are_recorded(command_line: CommandLine, count: int) -> bool:
    [run_dir] = command_line.run_dirs or [command_line.results]
    return len(list((run_dir / "details").glob("[!.]*.json"))) == count


def _contents(folder: Path) -> dict[str, bytes]:
    """All files but lock files, by name."""
    files = [path for path in folder.rglob("*") if path.is_file() and path.suffix != ".lock"]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def _assert_progress_tells_of_the_analysis(run_dir: Path, run_id: str) -> None:
    found = events(run_dir)
    assert_progress_is_whole(run_dir)
    assert {event["run_id"] for event in found} == {run_id}
    assert {event["phase"] for event in found if event["event"] == "phase_changed"} == {"analyze"}
    names = [event["event"] for event in found]
    assert names[:2] == ["run_started", "tasks_loaded"]
    assert names[-2:] == ["summary_started", "run_finished"]
    assert names.count("task_started") == names.count("task_finished") == 3
    snapshot = json.loads((run_dir / "progress.json").read_bytes())
    assert (snapshot["run_id"], snapshot["status"], snapshot["finished_tasks"]) == (run_id, "completed", 3)
