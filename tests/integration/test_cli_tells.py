"""What a run tells: in its log, in its result, and in the list of launches."""

from __future__ import annotations

import json
from pathlib import Path

from command_line import CommandLine, Ended

ROWS = [
    {"id": "q1", "question": "2 + 2?", "answer": "4"},
    {"id": "q2", "question": "2 + 3?", "answer": "5"},
]


def run(command_line: CommandLine, *options: str) -> Ended:
    dataset = command_line.dataset(ROWS)
    return command_line.run("run", "qa", "oracle", "none", "--benchmark-params", dataset, *options)


def log_of(run_dir: Path) -> str:
    [file] = (run_dir / "logs").iterdir()
    return file.read_text(encoding="utf-8")


def test_log_of_an_undisturbed_run_has_its_start_attempts_phases_and_end(command_line: CommandLine) -> None:
    run(command_line).expect(0)
    [run_dir] = command_line.run_dirs
    log = log_of(run_dir)
    start = (
        "run started: benchmark qa, harness oracle, model none, environment host_process; 2 tasks, k = 1; "
    )
    assert start in log and str(run_dir) in log
    assert "[q1 a1] execution 1: evaluate" in log
    assert "[q1 a1] ended: completed {'correct': True} in " in log and "[q2 a1] ended: " in log
    assert "run finished: completed; correct.native@1 = 1.0000" in log


def test_log_at_info_leaves_the_phases_out(command_line: CommandLine) -> None:
    run(command_line, "--file-log-level", "info").expect(0)
    log = log_of(command_line.run_dirs[0])
    assert "execution 1" not in log and "[q1 a1] ended: " in log


def test_summary_of_a_harness_without_a_model_counts_no_model_calls(command_line: CommandLine) -> None:
    run(command_line).expect(0)
    assert "model call" not in (command_line.run_dirs[0] / "summary.md").read_text(encoding="utf-8")


def test_kept_environments_are_counted_and_located(command_line: CommandLine) -> None:
    told = run(command_line, "--keep-environment").expect(0).stdout
    [run_dir] = command_line.run_dirs
    kept = [json.loads(line) for line in (run_dir / "kept_environments.jsonl").read_text().splitlines()]
    assert sorted(item["task_id"] for item in kept) == ["q1", "q2"]
    places = [Path(item["handle"]["data"]["directory"]) for item in kept]
    assert all(place.is_dir() for place in places)
    assert f"Environments kept: 2, the first for '{kept[0]['task_id']}': host_process {places[0]}; " in told


def test_reuse_says_what_it_took_over_or_that_there_was_nothing(command_line: CommandLine) -> None:
    first = run(command_line, "--reuse", "--run-id", "one").expect(0)
    assert f"Nothing to reuse: {command_line.results / 'none_qa_oracle'} holds no earlier run" in first.stderr
    second = run(command_line, "--reuse=one").expect(0)
    assert "Reused: 2 of 2 tasks from run one" in second.stderr


def test_run_id_of_a_finished_run_is_refused_with_what_to_do(command_line: CommandLine) -> None:
    run(command_line, "--run-id", "one").expect(0)
    refused = run(command_line, "--run-id", "one").expect(2)
    [error] = refused.errors
    assert "holds a run that is over (completed); choose another --run-id" in error
    assert error.endswith("--reuse=one")
    listed = command_line.run("list", "--all", "--json").expect(0).json
    assert [item["status"] for item in listed[:2]] == ["refused", "completed"]
    usual = command_line.run("list", "--json").expect(0)
    assert usual.json[0] == listed[1]
    assert "refused launches are not shown" in usual.stderr


def test_logs_say_which_of_several_launches_they_show(command_line: CommandLine) -> None:
    run(command_line).expect(0)
    run(command_line).expect(0)
    latest = command_line.run("list", "--json").expect(0).json[0]["launch_id"]
    told = command_line.run("logs", "q1").expect(0).stderr
    assert f"launches; this is {latest}, and --launch chooses another one" in told
    assert "chooses another one" not in command_line.run("logs", "q1", "--launch", latest).expect(0).stderr


def test_logs_say_which_of_several_requests_they_show(command_line: CommandLine) -> None:
    dataset = json.loads(command_line.dataset(ROWS))
    parts = {"benchmark": {"id": "qa", **dataset}, "harness": {"id": "oracle"}, "model": {"id": "none"}}
    plan = {"version": 1, "defaults": parts, "requests": [{"name": "first"}, {"name": "second"}]}
    file = command_line.folder / "plan.json"
    file.write_text(json.dumps(plan), encoding="utf-8")
    launch = command_line.run("launch", str(file), "--json").expect(0).json["launch_id"]
    told = command_line.run("logs", "q1", "--launch", launch).expect(0).stderr
    assert "Task 'q1' is in 2 requests of that launch; this is " in told
    told = command_line.run("logs", "q1", "--launch", launch, "--request", "first").expect(0).stderr
    assert "chooses another one" not in told


def test_view_makes_no_folder_for_its_report(command_line: CommandLine) -> None:
    run(command_line).expect(0)
    target = command_line.folder / "missing" / "report.html"
    [error] = (
        command_line.run("view", str(command_line.run_dirs[0]), "--output", str(target)).expect(2).errors
    )
    assert "cannot be written: No such file or directory" in error
    assert not target.parent.exists()


def test_summary_and_analysis_take_the_directory_either_way(command_line: CommandLine) -> None:
    run(command_line, "--run-id", "one").expect(0)
    run_dir = str(command_line.run_dirs[0])
    for given in ([run_dir], ["--input", run_dir]):
        assert command_line.run("summary", *given, "--json").expect(0).json["value"] == 1.0
        assert (
            command_line.run("analysis", *given, "--override", "--json").expect(0).json["run_dir"] == run_dir
        )
