"""The page of one run: everything above the task table, the table's rows, and the details of each task."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from pydantic import JsonValue

from ...contracts.errors import RecordError, UsageError
from ...contracts.records import DamagedRecord
from ...contracts.task import TaskSpec
from ..redaction import REDACTOR
from ..store import BrowsedTask, RunStore, open_store
from .breakdowns import categories, exclusions, metrics
from .details import task_detail
from .embedding import json_block
from .facts import PageFacts, read_facts
from .findings import analysis, issues, usage
from .folders import is_run
from .head import configuration, header, notices, overview
from .markup import Html, element, join
from .page import page_end, page_start
from .report_file import REPORT_NAME, check_target, new_file
from .rows import COLUMNS, RESULTS, RowCounts, RowMaker

MAX_TASK_CHARS = 100_000
"""Text of one task in the page, at most."""
MIN_TASK_CHARS = 1_500
MAX_PAGE_CHARS = 64_000_000
"""Text of all tasks together; with many tasks each gets its share of it, but at least the minimum."""
MAX_RECORD_BYTES = 128 * 1024 * 1024
"""A larger record is named but not read, so that one task cannot take all memory."""


def _nobody(_: DamagedRecord) -> None:
    pass


def write_run_report(
    run_dir: Path, output: Path | None = None, *, damaged: Callable[[DamagedRecord], None] = _nobody
) -> Path:
    """Write the report of ``run_dir``, by default into it; returns its path. Needs no server, changes no record.

    ``damaged`` hears of every record that cannot be read; the report names them, too. Raises ``UsageError`` when
    ``run_dir`` is no run, or ``output`` is something else than an earlier report.
    """
    store = open_store(run_dir.resolve())
    if not is_run(store.run_dir):
        raise UsageError(f"{run_dir} is not a run directory: it has no run_info.json and no details")
    target = output.absolute() if output else store.run_dir / REPORT_NAME
    check_target(target)
    facts = read_facts(store)
    with new_file(target) as file, tempfile.TemporaryFile() as details:
        maker = RowMaker(facts.report, target.parent)
        rows = _write_details(store, facts, maker, details, damaged)
        title = " · ".join(part for part in (facts.benchmark, facts.component("model"), store.run_id) if part)
        _write(file, page_start(REDACTOR.text(title)))
        _write(file, _body(facts, maker.counts))
        _write(file, json_block("rows", {"columns": list(COLUMNS), "results": dict(RESULTS), "rows": rows}))
        details.seek(0)
        shutil.copyfileobj(details, file)
        _write(file, page_end())
    return target


def _write_details(
    store: RunStore,
    facts: PageFacts,
    maker: RowMaker,
    file: BinaryIO,
    damaged: Callable[[DamagedRecord], None],
) -> list[JsonValue]:
    """The details of every task into ``file``; returns the rows. One record is in memory at a time."""
    rows: list[JsonValue] = []
    limit = _task_chars(store, facts)
    for number, task in enumerate(_tasks(store, facts, damaged)):
        if task.damage is not None:
            damaged(task.damage)
        rows.append(list[JsonValue](maker.row(task)))
        _write(file, json_block(f"t{number}", task_detail(task, _spec(store, task), limit)))
    return rows


def _task_chars(store: RunStore, facts: PageFacts) -> int:
    """The share of one task. Raises nothing: without a task list the records are counted."""
    try:
        total = store.task_count()
    except RecordError:
        total = sum(1 for _ in (facts.run_dir / "details").glob("*.json"))
    return min(MAX_TASK_CHARS, max(MIN_TASK_CHARS, MAX_PAGE_CHARS // max(total, 1)))


def _tasks(
    store: RunStore, facts: PageFacts, damaged: Callable[[DamagedRecord], None]
) -> Iterator[BrowsedTask]:
    """By the task list; by the record files when that is damaged or missing."""
    by_file = False
    try:
        store.task_count()
    except RecordError as error:
        by_file = True
        reason = str(error).replace(f"{store.run_dir}/", "")
        facts.notices.append(f"Shown are the records that were found; unfinished tasks are missing: {reason}")
        damaged(DamagedRecord(task_id="", reason=reason))
    yield from store.browse(by_file=by_file, max_bytes=MAX_RECORD_BYTES)


def _spec(store: RunStore, task: BrowsedTask) -> TaskSpec | None:
    """The task's own text, where the task list can be read."""
    if task.index is None:
        return None
    try:
        return store.task(task.index)
    except (RecordError, OSError):
        return None  # its question is missing in the page; the record says what it can


def _body(facts: PageFacts, counts: RowCounts) -> Html:
    report = facts.report
    parts = [
        overview(facts, counts),
        metrics(report) if report else None,
        categories(report) if report else None,
        issues(counts),
        exclusions(report) if report else None,
        usage(counts),
        analysis(facts),
    ]
    shown = [part for part in parts if part is not None]
    end = configuration(facts)
    noscript = element(
        "noscript",
        element("p", "The task table needs JavaScript; the records are in details/.", class_="notice warn"),
    )
    tasks = element(
        "section", element("h2", "Tasks"), noscript, element("div", id="tasks-app"), id="tasks", class_="card"
    )
    main = element("main", header(facts), notices(facts), shown, tasks, end)
    return join(
        main, element("aside", id="detail", hidden=True, tabindex="-1", aria_label="task"), Html("\n")
    )


def _write(file: BinaryIO, text: Html) -> None:
    file.write(text.encode("utf-8", "replace"))
