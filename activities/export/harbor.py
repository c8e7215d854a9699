"""The files of a Harbor job, as its viewer reads them: a job of trials, one for each attempt."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Mapping, Sequence

from pydantic import BaseModel, Field, JsonValue

from ...contracts.atif import AtifTrajectory
from ...contracts.issues import Issue, Severity
from ...contracts.records import AttemptRecord, RunInfo
from ...contracts.request import RunRequest
from ...contracts.result import StepResult

_KNOWN_ENVIRONMENTS = frozenset({"docker", "daytona", "modal", "e2b", "runloop"})
_IDS = uuid.UUID("6f2f0a3e-6f0c-5f0e-9a55-2f7c3b1d4e80")
"""Ids follow from names, so that a run that is exported twice gives the same files."""

Rewards = dict[str, float | int]


class TrialStep(BaseModel):
    """A step of a trial, of a task that is given step by step."""

    step_name: str
    verifier_result: dict[str, Rewards] | None = None
    exception_info: dict[str, JsonValue] | None = None


class TrialResult(BaseModel):
    """``result.json`` of a trial."""

    id: str
    task_name: str
    trial_name: str
    trial_uri: str
    task_id: dict[str, JsonValue]
    source: str
    task_checksum: str
    config: dict[str, JsonValue]
    agent_info: dict[str, JsonValue]
    agent_result: dict[str, JsonValue]
    verifier_result: dict[str, Rewards] | None = None
    exception_info: dict[str, JsonValue] | None = None
    step_results: list[TrialStep] | None = None
    started_at: str
    finished_at: str | None = None


class EvalStats(BaseModel):
    """What an agent reached with a dataset."""

    n_trials: int = 0
    n_errors: int = 0
    metrics: list[dict[str, float]] = Field(default_factory=list)
    reward_stats: dict[str, dict[float, list[str]]] = Field(default_factory=dict)
    exception_stats: dict[str, list[str]] = Field(default_factory=dict)


class JobStats(BaseModel):
    """Counts over all trials; the first two go by both the older and the newer names."""

    n_trials: int = 0
    n_errors: int = 0
    n_completed_trials: int = 0
    n_errored_trials: int = 0
    evals: dict[str, EvalStats] = Field(default_factory=dict)
    n_input_tokens: int | None = None
    n_cache_tokens: int | None = None
    n_output_tokens: int | None = None
    cost_usd: float | None = None


class JobResult(BaseModel):
    """``result.json`` of a job."""

    id: str
    started_at: str
    finished_at: str | None = None
    n_total_trials: int
    stats: JobStats


class HarborJob:
    """Makes the files of a job, trial by trial."""

    def __init__(self, info: RunInfo, request: RunRequest, primary: str) -> None:
        self._info = info
        self._request = request
        self._primary = primary
        self._trials = 0
        self._errors = 0
        self._used: dict[str, float] = {}
        self._rewards: defaultdict[str, defaultdict[float, list[str]]] = defaultdict(
            lambda: defaultdict(list)
        )
        self._exceptions: defaultdict[str, list[str]] = defaultdict(list)

    def config(self) -> dict[str, JsonValue]:
        """``config.json`` of the job."""
        return {
            "job_name": self._info.run_id,
            "jobs_dir": "jobs",
            "n_attempts": self._request.execution.attempts.k,
            "environment": self._environment(),
            "agents": [self._agent()],
            "datasets": [],
            "tasks": [],
        }

    def trial(
        self, task_id: str, trial: str, digest: str, record: AttemptRecord, atif: AtifTrajectory | None
    ) -> TrialResult:
        """``result.json`` of one attempt."""
        rewards = self._rewards_of(record)
        problem = _problem_of(record.issues)
        self._count(trial, rewards, problem)
        used = _agent_result(atif)
        for name, value in used.items():
            if isinstance(value, int | float):
                self._used[name] = self._used.get(name, 0) + value
        return TrialResult(
            id=self._id(trial),
            task_name=task_id,
            trial_name=trial,
            trial_uri=trial,
            task_id={"path": task_id},
            source=self._request.benchmark.id,
            task_checksum=digest,
            config=self._trial_config(task_id, trial),
            agent_info=self._agent_info(),
            agent_result=used,
            verifier_result={"rewards": rewards} if rewards else None,
            exception_info=self._exception(problem) if problem else None,
            step_results=[self._step(step) for step in record.steps] or None,
            started_at=_first_time(atif) or self._info.started_at,
            finished_at=_last_time(atif) or self._info.finished_at,
        )

    def result(self) -> JobResult:
        """``result.json`` of the job, after all its trials."""
        rewarded = {name: _mean(values) for name, values in self._rewards.items()}
        stats = EvalStats(
            n_trials=self._trials,
            n_errors=self._errors,
            metrics=[rewarded] if rewarded else [],
            reward_stats={name: dict(values) for name, values in self._rewards.items()},
            exception_stats=dict(self._exceptions),
        )
        request = self._request
        key = f"{request.harness.id}__{request.model.id}__{request.benchmark.id}".replace("/", "-")
        return JobResult(
            id=self._id("job"),
            started_at=self._info.started_at,
            finished_at=self._info.finished_at,
            n_total_trials=self._trials,
            stats=JobStats.model_validate(
                {
                    "n_trials": self._trials,
                    "n_errors": self._errors,
                    "n_completed_trials": self._trials,
                    "n_errored_trials": self._errors,
                    "evals": {key: stats},
                    **self._used,
                }
            ),
        )

    def _count(self, trial: str, rewards: Rewards, problem: Issue | None) -> None:
        self._trials += 1
        for name, value in rewards.items():
            self._rewards[name][float(value)].append(trial)
        if problem is not None:
            self._errors += 1
            self._exceptions[problem.code].append(trial)

    def _step(self, step: StepResult) -> TrialStep:
        rewards = self._rewards_of(step)
        problem = _problem_of(step.issues)
        return TrialStep(
            step_name=step.name,
            verifier_result={"rewards": rewards} if rewards else None,
            exception_info=self._exception(problem) if problem else None,
        )

    def _rewards_of(self, record: AttemptRecord | StepResult) -> Rewards:
        """The metrics as numbers; the primary one is also called ``reward``. None for an invalid attempt."""
        if any(issue.severity is Severity.FATAL for issue in record.issues):
            return {}
        rewards: Rewards = {
            name: _number(value)
            for name, value in record.metrics.items()
            if isinstance(value, bool | int | float)
        }
        if self._primary in rewards:
            rewards["reward"] = rewards[self._primary]
        return rewards

    def _exception(self, issue: Issue) -> dict[str, JsonValue]:
        return {
            "exception_type": issue.code,
            "exception_message": issue.message,
            "exception_traceback": "",
            "occurred_at": self._info.finished_at or self._info.started_at,
        }

    def _environment(self) -> dict[str, JsonValue]:
        name = self._request.environment.id
        if name in _KNOWN_ENVIRONMENTS:
            return {"type": name}
        return {"type": None, "import_path": f"agentcompass:{name}"}

    def _agent(self) -> dict[str, JsonValue]:
        return {"name": self._request.harness.id, "model_name": self._request.model.id}

    def _agent_info(self) -> dict[str, JsonValue]:
        model: dict[str, JsonValue] = {"name": self._request.model.id, "provider": "agentcompass"}
        version = self._info.agentcompass_version
        return {"name": self._request.harness.id, "version": version, "model_info": model}

    def _trial_config(self, task_id: str, trial: str) -> dict[str, JsonValue]:
        return {
            "task": {"path": task_id, "source": self._request.benchmark.id},
            "trial_name": trial,
            "agent": self._agent(),
            "environment": self._environment(),
            "job_id": self._id("job"),
        }

    def _id(self, name: str) -> str:
        return str(uuid.uuid5(_IDS, f"{self._info.launch_id}/{self._info.run_id}/{name}"))


def _problem_of(issues: Sequence[Issue]) -> Issue | None:
    return next((issue for issue in issues if issue.severity is not Severity.WARNING), None)


def _agent_result(atif: AtifTrajectory | None) -> dict[str, JsonValue]:
    if atif is None:
        return {}
    totals = atif.final_metrics
    return {
        "n_input_tokens": totals.total_prompt_tokens,
        "n_cache_tokens": totals.total_cached_tokens,
        "n_output_tokens": totals.total_completion_tokens,
        "cost_usd": totals.total_cost_usd,
    }


def _first_time(atif: AtifTrajectory | None) -> str | None:
    return next((step.timestamp for step in atif.steps if step.timestamp), None) if atif else None


def _last_time(atif: AtifTrajectory | None) -> str | None:
    return next((step.timestamp for step in reversed(atif.steps) if step.timestamp), None) if atif else None


def _number(value: bool | int | float) -> float | int:
    return int(value) if isinstance(value, bool) else value


def _mean(values: Mapping[float, list[str]]) -> float:
    count = sum(len(trials) for trials in values.values())
    return sum(value * len(trials) for value, trials in values.items()) / count
