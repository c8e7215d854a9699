"""A report for people: a table on a terminal, lines of text elsewhere."""

from __future__ import annotations

import sys
from typing import TextIO

from .finding import DoctorReport, Finding, State

_LABELS = {
    State.OK: ("✓", "ok", "green"),
    State.INFO: ("·", "info", "dim"),
    State.WARNING: ("!", "warning", "yellow"),
    State.FAILED: ("✗", "FAILED", "bold red"),
    State.UNREACHABLE: ("✗", "UNREACHABLE", "bold red"),
}


def show(report: DoctorReport, stream: TextIO = sys.stdout) -> None:
    """Write the report, and what to do last, where it is seen."""
    if stream.isatty():
        _table(report, stream)
    else:
        for finding in report.findings:
            print(plain_line(finding), file=stream)
    print(verdict(report), file=stream)


def plain_line(finding: Finding) -> str:
    """``ok           installation: Python: 3.12.1 …``."""
    label = _LABELS[finding.state][1]
    line = f"{label:<12} {finding.area}: {finding.name}: {finding.detail}"
    return f"{line}\n{'':<12} -> {finding.advice}" if finding.advice else line


def verdict(report: DoctorReport) -> str:
    """One line over all."""
    bad = sum(item.state in (State.FAILED, State.UNREACHABLE) for item in report.findings)
    warnings = sum(item.state is State.WARNING for item in report.findings)
    told = f", {warnings} {'warning' if warnings == 1 else 'warnings'}" if warnings else ""
    if bad:
        return f"{bad} {'problem' if bad == 1 else 'problems'}{told}: see the lines with an arrow."
    return f"Everything that every run needs works{told}."


def _table(report: DoctorReport, stream: TextIO) -> None:
    from rich.console import Console, Group
    from rich.table import Table
    from rich.text import Text

    console = Console(file=stream, highlight=False)
    table = Table.grid(padding=(0, 1))
    for width in (1, 18, None):
        table.add_column(width=width, overflow="fold")
    area = ""
    for finding in report.findings:
        if finding.area != area:
            area = finding.area
            table.add_row("", Text(area, style="bold"), "")
        icon, _, style = _LABELS[finding.state]
        lines = [Text(finding.detail)]
        if finding.advice:
            lines.append(Text(f"→ {finding.advice}", style=style))
        table.add_row(Text(icon, style=style), Text(finding.name), Group(*lines))
    console.print(table)
