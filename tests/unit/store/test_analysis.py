"""Findings are added to a record that is there, and to nothing else."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentcompass.activities.redaction import Redactor
from agentcompass.activities.store import AttemptAnalysis, RunStore, attempt_digest
from agentcompass.activities.store.legacy import read_task_record
from agentcompass.activities.store.run_copy import copy_run
from agentcompass.contracts import AnalysisFinding, AnalyzerResult, AttemptsSpec, RunDirectoryError, Severity
from agentcompass.contracts.records import AnalysisSummary

ONE = AttemptsSpec(k=1)


def unscored(_: Any) -> bool | None:
    return None


def found(store: RunStore, label: str = "seen", **details: Any) -> dict[str, AttemptAnalysis]:
    record = store.task_record("q1")
    assert record is not None
    result = AnalyzerResult(findings=[AnalysisFinding(label=label, details=details)])
    return {"1": AttemptAnalysis(attempt_digest(record.attempts["1"]), {"a": result})}


def labels(store: RunStore) -> list[str]:
    record = store.task_record("q1")
    assert record is not None
    results = record.attempts["1"].analysis_result
    return [finding.label for result in results.values() for finding in result.findings]


@pytest.fixture
def finished(store: RunStore, attempt: Any) -> RunStore:
    store.save_attempt(attempt("q1"), ONE, unscored)
    return store


def test_findings_are_added_and_everything_else_stays(finished: RunStore) -> None:
    path = finished.run_dir / "details" / "q1.json"
    before = json.loads(path.read_bytes())
    assert finished.save_analysis("q1", found(finished)) == 1
    after = json.loads(path.read_bytes())
    assert after["attempts"]["1"].pop("analysis_result") == {
        "a": {"findings": [{"label": "seen", "value": None, "details": {}}], "error": None}
    }
    assert before["attempts"]["1"].pop("analysis_result") == {}
    assert after == before


def test_adding_the_same_again_writes_nothing(finished: RunStore) -> None:
    finished.save_analysis("q1", found(finished))
    path = finished.run_dir / "details" / "q1.json"
    inode = path.stat().st_ino
    assert finished.save_analysis("q1", found(finished)) == 0
    assert path.stat().st_ino == inode


def test_a_new_result_of_an_analyzer_replaces_its_old_one(finished: RunStore) -> None:
    finished.save_analysis("q1", found(finished, "old"))
    assert finished.save_analysis("q1", found(finished, "new")) == 1
    assert labels(finished) == ["new"]


def test_a_task_without_a_record_is_left_alone(finished: RunStore) -> None:
    results = found(finished)
    finished.reopen_task("q1", unscored)
    assert finished.save_analysis("q1", results) == 0
    assert not finished.has_record("q1")


def test_another_result_of_the_same_attempt_is_left_alone(finished: RunStore, attempt: Any) -> None:
    results = found(finished)
    finished.reopen_task("q1", unscored)
    finished.save_attempt(attempt("q1", correct=False), ONE, unscored)
    assert finished.save_analysis("q1", results) == 0
    assert labels(finished) == []


def test_the_record_of_a_failed_task_keeps_its_name(store: RunStore, attempt: Any) -> None:
    store.save_attempt(attempt("q1", severity=Severity.FATAL), ONE, unscored)
    assert store.save_analysis("q1", found(store)) == 1
    assert [path.name for path in (store.run_dir / "details").iterdir()] == ["_error_q1.json"]


def test_a_copy_that_shares_its_file_with_another_run_does_not_change_that_run(
    finished: RunStore, tmp_path: Path
) -> None:
    other = tmp_path / "other.json"
    other.hardlink_to(finished.run_dir / "details" / "q1.json")
    before = other.read_bytes()
    finished.save_analysis("q1", found(finished))
    assert other.read_bytes() == before


def test_a_killed_writer_leaves_the_old_record_or_the_new_one(
    finished: RunStore, killed_at_step: Callable[[int, Callable[[], object]], bool]
) -> None:
    results = found(finished)
    step = 0
    while killed_at_step(step, lambda: finished.save_analysis("q1", results)):
        assert labels(finished) in ([], ["seen"])
        step += 1
    assert step > 3
    assert labels(finished) == ["seen"]


def test_field_names_of_an_analyzer_mean_nothing_but_known_secrets_are_masked(
    finished: RunStore, redactor: Redactor
) -> None:
    redactor.register("s3cr3t-value")
    finished.save_analysis("q1", found(finished, token="bracket", quoted="it said s3cr3t-value"))
    record = finished.task_record("q1")
    assert record is not None
    [finding] = record.attempts["1"].analysis_result["a"].findings
    assert finding.details == {"token": "bracket", "quoted": "it said ***"}


def test_the_summary_is_read_as_it_was_written(store: RunStore) -> None:
    summary = AnalysisSummary(benchmark="qa", tasks=1, attempts=1, analyzed_attempts=1)
    store.files.save_analysis(summary, "# text\n")
    assert store.files.analysis() == summary
    assert (store.run_dir / "analysis_summary.md").read_text() == "# text\n"


def test_an_analysis_of_a_version_2_record_becomes_findings(tmp_path: Path) -> None:
    path = tmp_path / "q1.json"
    bad = {"is_badcase": True, "score": 0.5, "details": {"why": "loop"}}
    attempt = {"status": "completed", "issues": [], "analysis_result": {"llm": bad, "env": {"error": "E"}}}
    path.write_text(
        json.dumps({"schema_version": "agentcompass.task.v2", "task_id": "q1", "attempts": {"1": attempt}})
    )
    results = read_task_record(path).attempts["1"].analysis_result
    assert results == {
        "llm": AnalyzerResult(
            findings=[AnalysisFinding(label="badcase", value=0.5, details={"why": "loop"})]
        ),
        "env": AnalyzerResult(error="E"),
    }


def test_a_copy_of_a_run_stands_alone(finished: RunStore, tmp_path: Path) -> None:
    (finished.run_dir / "artifacts" / "q1").mkdir(parents=True)
    (finished.run_dir / "artifacts" / "q1" / "out.txt").write_text("x")
    copy_run(finished.run_dir, tmp_path / "copy")
    copy = RunStore(tmp_path / "copy")
    copy.save_analysis("q1", found(copy))
    assert labels(copy) == ["seen"] and labels(finished) == []
    assert (copy.run_dir / "artifacts" / "q1" / "out.txt").read_text() == "x"
    assert not list(tmp_path.glob(".tmp-*"))


def test_a_copy_never_replaces_anything(finished: RunStore, tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    with pytest.raises(RunDirectoryError, match="exists already"):
        copy_run(finished.run_dir, tmp_path / "taken")
    with pytest.raises(RunDirectoryError, match="lies inside"):
        copy_run(finished.run_dir, finished.run_dir / "details" / "copy")
    assert not list(tmp_path.rglob(".tmp-*"))
