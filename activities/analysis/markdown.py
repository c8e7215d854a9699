"""``analysis_summary.md``: the totals for people."""

from __future__ import annotations

from ...contracts.records import AnalysisSummary, AnalyzerTotals, LabelTotals
from ..metrics.text import markdown, table

MAX_ROWS = 50
MAX_EXAMPLES = 5


def render_analysis(summary: AnalysisSummary) -> str:
    """The text of ``analysis_summary.md``; labels and task ids are shown as literal text."""
    sections = [
        [f"# {markdown(summary.benchmark.upper())} Analysis"],
        [
            f"**{summary.analyzed_attempts}/{summary.attempts} attempts analysed** of {summary.tasks} "
            "finished tasks. Findings explain scores and never change them."
        ],
        table(
            ["Analyzer", "Attempts", "Failed", "Most frequent label: attempts"],
            _overview(summary),
        ),
        *(_analyzer(analyzer) for analyzer in summary.analyzers),
        ["All labels and counts: [analysis\\_summary.json](analysis_summary.json)"],
    ]
    return "\n\n".join("\n".join(lines) for lines in sections if lines) + "\n"


def _overview(summary: AnalysisSummary) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for analyzer in summary.analyzers:
        first = analyzer.labels[0] if analyzer.labels else None
        shown = f"{markdown(first.label)}: {first.attempts}" if first else "-"
        rows.append((markdown(analyzer.analyzer), str(analyzer.attempts), str(analyzer.failed), shown))
    return rows


def _analyzer(analyzer: AnalyzerTotals) -> list[str]:
    """Nothing for an analyzer that found nothing and did not fail."""
    if not analyzer.labels and not analyzer.failed:
        return []
    lines = [f"## {markdown(analyzer.analyzer)}"]
    if analyzer.labels:
        head = [
            "Label",
            "Attempts",
            "Share",
            "Tasks",
            "Findings",
            "Value, mean",
            "Value, range",
            "For example",
        ]
        rows = [_label(analyzer, label) for label in analyzer.labels[:MAX_ROWS]]
        lines += ["", *table(head, rows)]
    if len(analyzer.labels) > MAX_ROWS:
        lines += ["", f"… and {len(analyzer.labels) - MAX_ROWS} more labels in analysis\\_summary.json"]
    if analyzer.failed:
        reasons = "; ".join(markdown(error) for error in analyzer.errors)
        lines += ["", f"**Failed on {analyzer.failed} of {analyzer.attempts} attempts**: {reasons}"]
    return lines


def _label(analyzer: AnalyzerTotals, label: LabelTotals) -> tuple[str, ...]:
    values = label.values
    shown = ", ".join(markdown(task, 60) for task in label.examples[:MAX_EXAMPLES])
    return (
        markdown(label.label),
        str(label.attempts),
        f"{100 * label.attempts / analyzer.attempts:.1f} %",
        str(label.tasks),
        str(label.findings),
        f"{values.total / values.count:.6g}" if values else "-",
        f"{values.minimum:.6g} to {values.maximum:.6g}" if values else "-",
        shown + (", …" if label.tasks > MAX_EXAMPLES else ""),
    )
