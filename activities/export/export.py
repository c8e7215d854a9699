"""``agentcompass export``: a run in the format of another program. Needs no server and changes nothing."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path

import orjson
from pydantic import BaseModel, Field

from ...contracts.atif import AtifTrajectory
from ...contracts.base import Contract
from ...contracts.errors import RecordError, RunDirectoryError, UsageError
from ...contracts.records import AttemptRecord, DamagedRecord, RunInfo, TaskRecord
from ...contracts.request import RunRequest
from ..store import BrowsedTask, RunStore, open_store
from ..store.files import TEMPORARY_PREFIX
from ..store.layout import task_file_stem
from .atif import to_atif
from .harbor import HarborJob


class ExportFormat(StrEnum):
    """What a run can be exported as."""

    ATIF = "atif"
    HARBOR = "harbor"


class ExportReport(Contract):
    """What was written."""

    directory: str
    format: ExportFormat
    attempts: int = 0
    trajectories: int = 0
    """Attempts that have steps; ATIF knows no empty trajectory."""
    unreadable: int = 0
    """Task records of an old version that say too little."""
    damaged: list[DamagedRecord] = Field(default_factory=list)
    """Task records that cannot be read; what else there is was exported."""


class Attempt(BaseModel):
    """A finished attempt and its names."""

    task_id: str
    number: str
    name: str
    """For files: derived from task and number."""
    record: AttemptRecord
    trajectory: AtifTrajectory | None


def export_run(run_dir: Path, format: ExportFormat, *, output: Path | None = None) -> ExportReport:
    """Write the finished attempts of ``run_dir`` into a new directory, by default beside it.

    Raises ``RunDirectoryError`` when it exists, ``UsageError`` when nothing is finished, ``RecordError``
    when ``run_dir`` is not a run. After any of them nothing is left behind.
    """
    source = run_dir.resolve()
    store = open_store(source)
    target = output or source.with_name(f"{source.name}_{format.value}")
    if os.path.lexists(target):
        raise RunDirectoryError(f"{target} exists already; choose another --output")
    building = target.parent / f"{TEMPORARY_PREFIX}{os.getpid()}-{secrets.token_hex(6)}"
    report = ExportReport(directory=str(target), format=format)
    try:
        building.mkdir(parents=True)
        write = _write_atif if format is ExportFormat.ATIF else _write_harbor
        write(store, building, report)
        if not report.attempts:
            _refuse_nothing(run_dir, report)
        os.rename(building, target)
    except OSError as error:
        raise RunDirectoryError(f"{target} cannot be written: {error.strerror or error}") from error
    finally:
        shutil.rmtree(building, ignore_errors=True)
    return report


def _refuse_nothing(run_dir: Path, report: ExportReport) -> None:
    if report.damaged:
        found = report.damaged[0]
        raise RecordError(f"{run_dir} has no attempt that can be read: {found.reason}")
    raise UsageError(f"{run_dir} has no finished attempt to export")


def _write_atif(store: RunStore, directory: Path, report: ExportReport) -> None:
    info, request = store.files.run_info(), store.request()
    for attempt in _attempts(store, info, request, report):
        if attempt.trajectory is not None:
            _write(directory / f"{attempt.name}.json", attempt.trajectory)


def _write_harbor(store: RunStore, directory: Path, report: ExportReport) -> None:
    info, request = store.files.run_info(), store.request()
    job = HarborJob(info, request, _primary_metric(store))
    for attempt in _attempts(store, info, request, report):
        identity = attempt.record.identity
        digest = identity.task_digest if identity else ""
        result = job.trial(attempt.task_id, attempt.name, digest, attempt.record, attempt.trajectory)
        trial = directory / attempt.name
        (trial / "agent").mkdir(parents=True)
        (trial / "verifier").mkdir()
        _write(trial / "result.json", result)
        _write(trial / "config.json", result.config)
        if attempt.trajectory is not None:
            _write(trial / "agent" / "trajectory.json", attempt.trajectory)
        if result.verifier_result is not None:
            _write(trial / "verifier" / "reward.json", result.verifier_result["rewards"])
        if result.exception_info is not None:
            message = (
                f"{result.exception_info['exception_type']}: {result.exception_info['exception_message']}\n"
            )
            (trial / "exception.txt").write_text(message, encoding="utf-8")
    _write(directory / "config.json", job.config())
    _write(directory / "result.json", job.result())


def _attempts(store: RunStore, info: RunInfo, request: RunRequest, report: ExportReport) -> Iterator[Attempt]:
    """The finished attempts, one task in memory at a time; counted in ``report``."""
    for task in _tasks(store, report):
        if task.damage is not None:
            report.damaged.append(task.damage)
        if not isinstance(task.record, TaskRecord):
            report.unreadable += task.record is not None
            continue
        for number, record in task.record.attempts.items():
            attempt = _attempt(task.task_id, number, record, info, request)
            report.attempts += 1
            report.trajectories += attempt.trajectory is not None
            yield attempt


def _tasks(store: RunStore, report: ExportReport) -> Iterator[BrowsedTask]:
    """By the task list; by the record files when that is damaged."""
    by_file = False
    try:
        store.has_tasks() and store.task_count()
    except RecordError as error:
        by_file = True
        reason = str(error).replace(f"{store.run_dir}/", "")
        report.damaged.append(DamagedRecord(task_id="", reason=reason))
    yield from store.browse(by_file=by_file)


def _attempt(task_id: str, number: str, record: AttemptRecord, info: RunInfo, request: RunRequest) -> Attempt:
    trajectory = None
    if record.trajectory is not None:
        agent_version = record.meta.harness.get("agent_version")
        trajectory = to_atif(
            record.trajectory,
            session_id=f"{info.run_id}/{task_id}/a{number}",
            agent=request.harness.id,
            version=str(agent_version or info.agentcompass_version or "unknown"),
            model=request.model.id,
        )
    name = f"{task_file_stem(task_id)}__a{number}"
    return Attempt(task_id=task_id, number=number, name=name, record=record, trajectory=trajectory)


def _primary_metric(store: RunStore) -> str:
    """The name of the primary metric; ``correct`` in a run whose report is missing."""
    try:
        return store.files.metrics().primary.partition(".")[0]
    except RecordError:
        return "correct"


def _write(path: Path, value: BaseModel | object) -> None:
    plain = value.model_dump(mode="json", exclude_none=True) if isinstance(value, BaseModel) else value
    options = orjson.OPT_INDENT_2 | orjson.OPT_NON_STR_KEYS
    path.write_bytes(orjson.dumps(plain, option=options) + b"\n")
