"""What a benchmark makes of the report: its own numbers, or one line that names it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from reuse_runs import Runs

from agentcompass.activities.analysis import AnalysisMeter
from agentcompass.activities.run_report import compute_report
from agentcompass.contracts import MetricReport, UsageError
from agentcompass.plugins.benchmarks.qa import QuestionAnswering


def broken(report: MetricReport) -> MetricReport:
    raise ZeroDivisionError("no tasks")


def ill_typed(report: MetricReport) -> MetricReport:
    return report.model_copy(update={"evaluation_failed": "perhaps"})


@pytest.mark.parametrize(
    ("hook", "reason"),
    [
        (broken, "ZeroDivisionError: no tasks"),
        (lambda report: None, "TypeError: aggregate_metrics returned NoneType instead of MetricReport"),
        (
            ill_typed,
            "ValidationError: MetricReport.evaluation_failed: Input should be a valid boolean, unable to interpret input",
        ),
    ],
)
async def test_a_hook_that_breaks_is_named_in_one_line(tmp_path: Path, hook: Any, reason: str) -> None:
    class Aggregating(QuestionAnswering):
        def aggregate_metrics(self, tasks: Any, report: MetricReport) -> MetricReport:
            found: MetricReport = hook(report)
            return found

    runs = Runs(tmp_path)
    store = await runs.start("run")
    runs.finish(store, "q1")
    benchmark = Aggregating(Aggregating.Params(path="unused"))
    with pytest.raises(UsageError) as caught:
        compute_report(store, benchmark, AnalysisMeter())
    assert str(caught.value) == f"benchmark 'qa': aggregate_metrics failed: {reason}"
