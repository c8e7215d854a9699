"""Declared artifacts through the real command line, on ``host_process``."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from command_line import CommandLine, Ended, Running, kill_and_wait, running_with, wait_for

PACKAGE = Path(__file__).parents[1] / "support" / "artifact_package"
DELIVER = "mkdir out; printf right > out/answer.txt; touch out/scratch.tmp"
CONFIG = "runtime:\n  heartbeat_timeout_seconds: 4\n  cleanup_grace_seconds: 20\n  progress: plain\n"


@dataclass
class Delivery:
    """What a run left of its only attempt."""

    ended: Ended
    run_dir: Path

    @property
    def record(self) -> dict[str, Any]:
        """The attempt's record."""
        (file,) = (self.run_dir / "details").glob("*.json")
        record: dict[str, Any] = json.loads(file.read_bytes())["attempts"]["1"]
        return record

    @property
    def entries(self) -> list[dict[str, Any]]:
        """The manifest's."""
        entries: list[dict[str, Any]] = self.record["artifacts"]["declared_artifacts"]["entries"]
        return entries

    @property
    def folder(self) -> Path:
        """Where the files are."""
        return self.run_dir / "artifacts" / "one" / "attempt-1" / "execution-1"

    @property
    def issues(self) -> list[tuple[str, str, str]]:
        """Severity, phase and code of each."""
        return [(issue["severity"], issue["phase"], issue["code"]) for issue in self.record["issues"]]


class Deliveries:
    """Starts runs of the one-task benchmark."""

    def __init__(self, command_line: CommandLine) -> None:
        self._command_line = command_line
        self._config = command_line.folder / "config.yaml"
        self._config.write_text(CONFIG, encoding="utf-8")

    def start(
        self,
        script: str = DELIVER,
        *,
        benchmark: str = "deliveries",
        execution: dict[str, Any] | None = None,
        options: tuple[str, ...] = (),
        **params: Any,
    ) -> Running:
        """Start a run."""
        return self._command_line.start(
            *("run", benchmark, "script", "none", "--env", "host_process", "--config", str(self._config)),
            *("--benchmark-params", json.dumps({"script": script, **params})),
            *("--execution-params", json.dumps(execution or {}), *options),
        )

    def run(self, script: str = DELIVER, **options: Any) -> Delivery:
        """The same to its end."""
        return self.ended(self.start(script, **options))

    @property
    def results(self) -> Path:
        """Where runs go."""
        return self._command_line.results

    def ended(self, running: Running) -> Delivery:
        """What it left in the end."""
        ended = running.wait()
        (run_dir,) = self._command_line.run_dirs
        return Delivery(ended, run_dir)


@pytest.fixture
def deliveries(embedded_home: Path, tmp_path: Path) -> Iterator[Deliveries]:
    """Runs in the test's own folder."""
    command_line = CommandLine(embedded_home, tmp_path, {**os.environ, "PYTHONPATH": str(PACKAGE)})
    yield Deliveries(command_line)
    command_line.end_all()


def test_fresh_judges_the_restored_files_in_another_environment(deliveries: Deliveries) -> None:
    done = deliveries.run("echo agent > left-behind; " + DELIVER)
    done.ended.expect(0)
    assert done.record["metrics"] == {"correct": True}
    assert done.record["extra"] == {"answer": "right", "listing": ["answer.txt"]}
    manifest = done.record["artifacts"]["declared_artifacts"]
    assert manifest["complete"] is True
    assert manifest["directory"] == "artifacts/one/attempt-1/execution-1"
    (entry,) = manifest["entries"]
    assert (entry["source"], entry["destination"], entry["status"]) == ("{workdir}/out", "out", "collected")
    assert (entry["kind"], entry["size_bytes"], entry["file_count"]) == ("directory", 5, 1)
    assert [path.name for path in (done.folder / "out").iterdir()] == ["answer.txt"]
    assert (done.folder / "out" / "answer.txt").read_text() == "right"


def test_none_judges_the_saved_files_on_the_worker(deliveries: Deliveries) -> None:
    done = deliveries.run(mode="none", execution={"save_artifacts": True})
    done.ended.expect(0)
    assert done.record["extra"] == {"answer": "right", "listing": ["answer.txt"]}
    assert done.record["metrics"] == {"correct": True}


def test_reuse_runs_commands_and_transfers_only_when_asked(deliveries: Deliveries) -> None:
    done = deliveries.run(mode="reuse", artifact_collect=[{"command": "echo made > out/made.txt"}])
    done.ended.expect(0)
    assert done.record["extra"]["listing"] == ["answer.txt", "made.txt", "scratch.tmp"]
    assert [(entry["status"], entry["reason"]) for entry in done.entries] == [
        ("not_collected", "save_artifacts is off")
    ]
    assert not done.folder.exists()


def test_reuse_saves_files_when_asked(deliveries: Deliveries) -> None:
    done = deliveries.run(
        mode="reuse",
        execution={
            "save_artifacts": True,
            "artifacts": [{"source": "{workdir}/out/answer.txt", "destination": "kept/answer"}],
        },
    )
    done.ended.expect(0)
    assert (done.folder / "kept" / "answer").read_text() == "right"
    assert done.entries[0]["sha256"] == hashlib.sha256(b"right").hexdigest()
    assert done.entries[0]["kind"] == "file"


def test_fresh_without_saving_sees_no_artifacts_but_commands_ran(
    deliveries: Deliveries, tmp_path: Path
) -> None:
    ran = tmp_path / "ran"
    done = deliveries.run(
        execution={"save_artifacts": False}, artifact_collect=[{"command": f"touch '{ran}'"}]
    )
    assert ran.exists()
    assert done.record["metrics"] == {"correct": False}
    assert done.record["extra"]["listing"] == []


def test_the_benchmarks_own_hook_runs_after_commands_and_transfer(deliveries: Deliveries) -> None:
    done = deliveries.run(benchmark="looked_at_deliveries", artifact_collect=[{"command": "echo yes > made"}])
    done.ended.expect(0)
    assert done.record["extra"]["collected_before"] is True
    assert done.record["extra"]["made"] == "yes\n"


def test_a_missing_source_is_recorded_and_fails_nothing(deliveries: Deliveries) -> None:
    done = deliveries.run("true")
    assert done.record["metrics"] == {"correct": False}
    assert done.issues == []
    assert done.entries[0]["status"] == "missing"


def test_hostile_leftovers_are_left_out_with_a_warning_and_the_rest_is_judged(
    deliveries: Deliveries,
) -> None:
    done = deliveries.run(
        DELIVER
        + "; ln -s /etc/passwd out/passwd; ln -s ../.. out/up; mkfifo out/pipe; chmod 6755 out/answer.txt"
    )
    done.ended.expect(0)
    assert done.record["metrics"] == {"correct": True}
    assert done.record["extra"]["listing"] == ["answer.txt"]
    assert done.issues == [("warning", "collect", "artifact_refused")]
    assert {item["path"]: item["reason"] for item in done.entries[0]["refused"]} == {
        "passwd": "a symbolic link to an absolute path, '/etc/passwd'",
        "up": "a symbolic link that leaves its folder, to '../..'",
        "pipe": "a device, pipe or socket, which holds no data",
    }
    assert (done.folder / "out" / "answer.txt").stat().st_mode & 0o7777 == 0o755


def test_a_huge_sparse_file_is_refused_before_it_is_copied(deliveries: Deliveries) -> None:
    done = deliveries.run(
        "mkdir out; truncate -s 100G out/huge; echo kept > first",
        artifacts=[{"source": "{workdir}/first"}, {"source": "{workdir}/out"}, {"source": "{workdir}/last"}],
    )
    done.ended.expect(1)
    assert done.record["metrics"] == {}
    assert done.issues == [("fatal", "collect", "artifact_collection_failed")]
    assert done.record["issues"][0]["message"] == (
        "{workdir}/out: the artifacts are larger than 16384 MiB (artifact_limits.max_mb): "
        "out/huge has 107374182400 bytes"
    )
    assert [entry["status"] for entry in done.entries] == ["collected", "failed", "not_collected"]
    assert (done.folder / "first").read_text() == "kept\n"
    assert [path.name for path in done.folder.parent.iterdir()] == ["execution-1"]
    assert [path.name for path in done.folder.iterdir()] == ["first"]


def test_a_failed_command_is_fatal_and_its_output_is_in_the_diagnostics(deliveries: Deliveries) -> None:
    done = deliveries.run(
        artifact_collect=[{"command": "true"}, {"command": "echo told; echo why >&2; exit 3"}]
    )
    done.ended.expect(1)
    assert done.issues == [("fatal", "collect", "artifact_collection_failed")]
    assert done.record["issues"][0]["message"] == (
        "artifact command 2 of 2 (echo told; echo why >&2; exit 3) ended with status 3: why"
    )
    assert "stdout:\ntold" in done.record["artifacts"]["execution_diagnostics"]
    assert done.record["metrics"] == {}
    assert done.entries[0]["status"] == "not_collected"


@pytest.mark.parametrize(
    ("own", "group", "message"),
    [
        (0.5, None, "ran longer than its timeout_seconds of 0.5 s"),
        (60, 0.5, "the budget of 0.5 s for artifact commands (artifact_collect_timeout_seconds) is used up"),
    ],
)
def test_an_expired_command_budget_names_itself_and_the_command_is_dead(
    deliveries: Deliveries, tmp_path: Path, own: float, group: float | None, message: str
) -> None:
    mark = tmp_path / "mark"
    command = f"touch '{mark}'; setsid tail -f '{mark}' & wait"
    done = deliveries.run(
        artifact_collect=[{"command": command, "timeout_seconds": own}],
        execution={"artifact_collect_timeout_seconds": group},
        options=("--keep-environment",),
    )
    done.ended.expect(1)
    assert message in done.record["issues"][0]["message"]
    assert mark.exists()
    assert running_with(str(mark)) == []


def test_an_expired_transfer_budget_names_itself(deliveries: Deliveries) -> None:
    done = deliveries.run(
        "mkdir out; truncate -s 15G out/large",
        execution={"artifact_limits": {"timeout_seconds": 0.2}},
    )
    done.ended.expect(1)
    assert done.record["issues"][0]["message"] == (
        "{workdir}/out: the budget of 0.2 s for collecting artifacts (artifact_limits.timeout_seconds) is used up"
    )
    assert done.entries[0]["status"] == "failed"
    assert [path.name for path in done.folder.parent.iterdir()] == ["execution-1"]
    assert list(done.folder.iterdir()) == []


def test_a_worker_killed_while_it_collects_repeats_nothing_that_ended(
    deliveries: Deliveries, tmp_path: Path
) -> None:
    log, gate = tmp_path / "log", tmp_path / "gate"
    waits = f"echo second >> '{log}'; while [ ! -e '{gate}' ]; do sleep 0.05; done; echo more > out/more.txt"
    running = deliveries.start(
        artifact_collect=[
            {"command": f"echo first >> '{log}'"},
            {"command": waits},
        ]
    )
    wait_for("the second command", lambda: log.exists() and "second" in log.read_text())
    kill_and_wait(running.worker_pid)
    gate.touch()
    done = deliveries.ended(running)
    done.ended.expect(0)
    assert log.read_text().splitlines() == ["first", "second", "second"]
    assert done.record["extra"]["listing"] == ["answer.txt", "more.txt"]


def test_a_worker_killed_while_it_transfers_leaves_no_half_file(deliveries: Deliveries) -> None:
    # sha256 of 400 MB of zeros
    sha256 = "36286c9dd45c90a7ff4443de7fc7301c5bc4900ff415d789dbc7f9a32a9dbb83"
    running = deliveries.start(
        "head -c 400000000 /dev/zero > large", artifacts=[{"source": "{workdir}/large"}]
    )
    results = deliveries.results
    wait_for("the transfer", lambda: list(results.glob("**/.execution-1.incoming/*/content")))
    kill_and_wait(running.worker_pid)
    done = deliveries.ended(running)
    assert [(entry["status"], entry["sha256"]) for entry in done.entries] == [("collected", sha256)]
    assert (done.folder / "large").stat().st_size == 400_000_000
    assert [path.name for path in done.folder.parent.iterdir()] == ["execution-1"]


@pytest.mark.parametrize("mode", ["fresh", "none"])
def test_an_artifact_that_changed_since_it_was_collected_is_not_judged(
    deliveries: Deliveries, mode: str
) -> None:
    done = deliveries.run(
        benchmark="looked_at_deliveries", mode=mode, forge=True, execution={"save_artifacts": True}
    )
    done.ended.expect(1)
    assert done.record["metrics"] == {}
    assert done.issues == [("fatal", "evaluate", "artifact_restore_failed")]
    assert "'out' is not what was collected" in done.record["issues"][0]["message"]


def test_a_retry_of_the_evaluation_judges_the_same_artifacts(deliveries: Deliveries, tmp_path: Path) -> None:
    done = deliveries.run(
        judge_fails_until=str(tmp_path / "failed-once"),
        execution={"max_retries": 1, "retry_min_delay_seconds": 0, "retry_max_delay_seconds": 0},
    )
    done.ended.expect(0)
    assert done.record["metrics"] == {"correct": True}
    manifest = done.record["artifacts"]["declared_artifacts"]
    assert manifest["directory"] == "artifacts/one/attempt-1/execution-2"
    assert (done.run_dir / manifest["directory"] / "out" / "answer.txt").read_text() == "right"


def test_a_judge_that_changes_the_files_changes_nothing_for_the_next_one(
    deliveries: Deliveries, tmp_path: Path
) -> None:
    done = deliveries.run(
        mode="none",
        scribbles=True,
        judge_fails_until=str(tmp_path / "failed-once"),
        execution={
            "save_artifacts": True,
            "max_retries": 1,
            "retry_min_delay_seconds": 0,
            "retry_max_delay_seconds": 0,
        },
    )
    done.ended.expect(0)
    assert done.record["extra"] == {"answer": "right", "listing": ["answer.txt"]}
    for execution in ("execution-1", "execution-2"):
        kept = done.folder.parent / execution / "out"
        assert {path.name: path.read_text() for path in kept.iterdir()} == {"answer.txt": "right"}


def test_a_benchmark_that_returns_artifacts_of_its_own_loses_nothing_of_what_was_collected(
    deliveries: Deliveries,
) -> None:
    done = deliveries.run(benchmark="replacing_deliveries")
    done.ended.expect(0)
    assert done.record["extra"] == {"answer": "right", "listing": ["answer.txt"]}
    assert done.record["artifacts"]["judged"] is True
    assert [(entry["destination"], entry["status"]) for entry in done.entries] == [("out", "collected")]


def test_two_artifacts_with_one_destination_are_bad_usage(deliveries: Deliveries, tmp_path: Path) -> None:
    ended = deliveries.start(execution={"artifacts": [{"source": "/a/out"}, {"source": "/b/out"}]}).wait()
    ended.expect(2)
    assert "share the destination 'out'" in ended.stderr
    assert not (tmp_path / "results").exists()
