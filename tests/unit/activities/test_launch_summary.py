"""launch_summary.json and its table."""

from __future__ import annotations

import json
from pathlib import Path

from agentcompass.activities.launch_summary import write_launch_summary
from agentcompass.activities.redaction import Redactor
from agentcompass.activities.store.writer import MaskingWriter
from agentcompass.contracts.activities import LaunchSummaryInput
from agentcompass.contracts.launch import LaunchResult, RequestResult


def summary_input(results_dir: Path) -> LaunchSummaryInput:
    inside = RequestResult(
        key="one|two",
        run_id="run",
        run_dir=str(results_dir / "one" / "run"),
        status="completed",
        total_tasks=5,
        evaluated_tasks=4,
        unavailable_tasks=1,
        primary="correct",
        value=0.75,
    )
    outside = RequestResult(key="three", run_dir="/elsewhere/run", status="failed", reference_value=0.5)
    return LaunchSummaryInput(
        results_dir=str(results_dir),
        name="weekly",
        result=LaunchResult(
            launch_id="weekly-1", status="partial_failure", requests=[inside, outside], exit_code=1
        ),
        started_at="2026-11-30T10:00:00.000+00:00",
        finished_at="2026-11-30T11:00:00.000+00:00",
    )


def test_every_request_is_named_with_its_numbers(tmp_path: Path) -> None:
    folder = write_launch_summary(summary_input(tmp_path), MaskingWriter(Redactor()))
    assert folder == tmp_path / "launches" / "weekly-1"
    found = json.loads((folder / "launch_summary.json").read_bytes())
    assert (found["status"], found["name"], found["exit_code"]) == ("partial_failure", "weekly", 1)
    first, second = found["requests"]
    assert (first["name"], first["run_dir"], first["value"]) == ("one|two", "one/run", 0.75)
    assert (second["name"], second["run_dir"], second["reference_value"]) == ("three", "/elsewhere/run", 0.5)


def test_the_table_holds_a_row_for_each_request_with_its_coverage(tmp_path: Path) -> None:
    folder = write_launch_summary(summary_input(tmp_path), MaskingWriter(Redactor()))
    rows = (folder / "launch_summary.md").read_text().splitlines()[-2:]
    assert rows == [
        "| one&#124;two | completed | correct | 0.7500 | 4/5 | 0 | 0 | one/run |",
        "| three | failed |  | (0.5000) | 0/0 | 0 | 0 | /elsewhere/run |",
    ]
