"""Reading what older versions wrote: run_info v1 and v2, task v2.

Converted is only what structured evidence supports. A task that failed before issues existed
says so in free text; how bad it was cannot be told from that, so it stays *unclassified*: it can
be browsed, but not counted or reused without a new execution. Nothing here writes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from pydantic import JsonValue, ValidationError

from ...contracts.base import Contract
from ...contracts.errors import RecordError
from ...contracts.records import RUN_INFO_SCHEMA, TASK_SCHEMA, RunInfo, TaskRecord
from .files import ModelT, parse_model, read_bytes, read_json

TASK_SCHEMA_V2: Final = "agentcompass.task.v2"
RUN_INFO_OLDER: Final = ("agentcompass.run_info.v1", "agentcompass.run_info.v2")


class UnclassifiedTask(Contract):
    """An older record that can be shown but not counted, and why."""

    task_id: str
    schema_version: str
    reason: str
    content: dict[str, JsonValue]


class UnclassifiedRecordError(RecordError):
    """The record is readable, but lacks the evidence that counting it needs."""

    def __init__(self, path: Path, task: UnclassifiedTask) -> None:
        super().__init__(f"{path}: {task.schema_version}: {task.reason}; execute the task again to count it")
        self.task = task


def read_task_record(path: Path) -> TaskRecord:
    """The task record at ``path``, converted when it is of version 2.

    Raises UnclassifiedRecordError for an older record without structured evidence, RecordError
    for a broken one or one of a version that is not known.
    """
    data = read_bytes(path)
    if data is None:
        raise RecordError(f"{path}: no such file")
    if b'"agentcompass.task.v3"' in data[:200]:
        return parse_model(data, TaskRecord, path)
    value = read_json(path)
    version = _version(path, value)
    if version == TASK_SCHEMA:
        return parse_model(data, TaskRecord, path)
    if version != TASK_SCHEMA_V2:
        raise RecordError(f"{path}: schema_version {version!r} is not one of {TASK_SCHEMA_V2}, {TASK_SCHEMA}")
    return _convert_task(path, value)


def read_task_for_display(path: Path) -> TaskRecord | UnclassifiedTask:
    """As :func:`read_task_record`, but an unclassified record is returned instead of raised."""
    try:
        return read_task_record(path)
    except UnclassifiedRecordError as error:
        return error.task


def read_run_info(path: Path) -> RunInfo:
    """``run_info.json`` of any known version. Plans of versions 1 and 2 keep what version 3 has, too."""
    value = read_json(path)
    if value is None:
        raise RecordError(f"{path}: no such file")
    version = _version(path, value)
    if version in RUN_INFO_OLDER:
        value = _convert_run_info(value)
    elif version != RUN_INFO_SCHEMA:
        known = ", ".join((*RUN_INFO_OLDER, RUN_INFO_SCHEMA))
        raise RecordError(f"{path}: schema_version {version!r} is not one of {known}")
    return _validated(RunInfo, value, path)


def _version(path: Path, value: Any) -> str:
    version = value.get("schema_version") if isinstance(value, dict) else None
    if not isinstance(version, str):
        raise RecordError(f"{path}: not a record: schema_version is missing")
    return version


def _validated(model: type[ModelT], value: dict[str, Any], path: Path) -> ModelT:
    try:
        return model.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise RecordError(f"{path}: not a valid {model.__name__}: {place}: {first['msg']}") from None


def _convert_task(path: Path, value: dict[str, Any]) -> TaskRecord:
    reason = _why_unclassified(value)
    if reason:
        task_id = str(value.get("task_id", path.stem))
        raise UnclassifiedRecordError(
            path,
            UnclassifiedTask(task_id=task_id, schema_version=TASK_SCHEMA_V2, reason=reason, content=value),
        )
    attempts = {number: _convert_attempt(attempt) for number, attempt in value["attempts"].items()}
    kept = {key: item for key, item in value.items() if key in TaskRecord.model_fields and item is not None}
    converted = {**kept, "schema_version": TASK_SCHEMA, "attempts": attempts}
    converted.setdefault("attempt_plan", {"k": max(int(number) for number in attempts)})
    return _validated(TaskRecord, converted, path)


def _why_unclassified(value: dict[str, Any]) -> str:
    """Why the record cannot be counted; ``""`` when every attempt has structured evidence."""
    attempts = value.get("attempts")
    if not isinstance(attempts, dict) or not attempts or not all(str(key).isdigit() for key in attempts):
        return "it has no numbered attempts"
    for number, attempt in attempts.items():
        if not isinstance(attempt, dict):
            return f"attempt {number} is not an object"
        if isinstance(attempt.get("issues"), list):
            continue
        if attempt.get("error") or value.get("error"):
            return f"attempt {number} failed with a free text only"
        if attempt.get("status") != "completed":
            return f"attempt {number} has the status {attempt.get('status')!r} and no issue that explains it"
    return ""


def _convert_attempt(attempt: dict[str, Any]) -> dict[str, Any]:
    """A version 2 attempt that completed, or that has issues, in today's form."""
    meta, extra = _map(attempt.get("meta")), dict(_map(attempt.get("extra")))
    if attempt.get("trajectory"):
        extra["legacy_trajectory"] = attempt["trajectory"]  # its steps have no common form
    return {
        "status": _status(str(attempt.get("status"))),
        "metrics": attempt.get("metrics") or {},
        "final_answer": attempt.get("final_answer"),
        "issues": attempt.get("issues") or [],
        "artifacts": attempt.get("artifacts") or {},
        "meta": {key: meta[key] for key in ("benchmark", "harness") if isinstance(meta.get(key), dict)},
        "extra": extra,
        "analysis_result": _convert_analysis(attempt.get("analysis_result")),
    }


def _convert_analysis(value: Any) -> dict[str, Any]:
    """Version 2 says of an analyzer's family whether the attempt is a bad case, and why."""
    converted: dict[str, Any] = {}
    for name, item in _map(value).items():
        result = _map(item)
        finding = {"label": "badcase", "value": result.get("score"), "details": _map(result.get("details"))}
        converted[name] = {
            "findings": [finding] if result.get("is_badcase") is True else [],
            "error": str(result["error"]) if result.get("error") else None,
        }
    return converted


def _map(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _status(name: str) -> str:
    return "run_error" if name == "run_error_or_eval_error" else name


def _convert_run_info(value: dict[str, Any]) -> dict[str, Any]:
    kept = {key: item for key, item in value.items() if key in RunInfo.model_fields and item is not None}
    plans = kept.pop("resolved_execution_plans", {})
    return {**kept, "schema_version": RUN_INFO_SCHEMA, "resolved_execution_plans": _convert_plans(plans)}


def _convert_plans(plans: Any) -> dict[str, Any]:
    converted: dict[str, Any] = {}
    for task_id, task in plans.items() if isinstance(plans, dict) else ():
        attempts = task.get("attempts") if isinstance(task, dict) else None
        if isinstance(attempts, dict):
            found = {
                number: _convert_plan(plan) for number, plan in attempts.items() if isinstance(plan, dict)
            }
            converted[task_id] = {"attempts": found}
    return converted


def _convert_plan(plan: dict[str, Any]) -> dict[str, Any]:
    verifier = plan.get("verifier_network_policy") or plan.get("evaluation_network_policy") or {}
    return {
        "environment": plan.get("environment") or {},
        "evaluation_environment": plan.get("evaluation_environment"),
        "evaluation_environment_mode": plan.get("evaluation_environment_mode") or "none",
        "run_network_policy": plan.get("run_network_policy") or {},
        "verifier_network_policy": verifier,
        "applied_recipes": plan.get("applied_recipes") or [],
    }
