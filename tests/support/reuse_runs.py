"""Runs of a small ``qa`` benchmark, written through the run store, to be continued by others."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agentcompass.activities.identity import plan_digest, unscored_identity
from agentcompass.activities.planner import plan_attempt
from agentcompass.activities.reuse import ReuseReport, find_source, take_over
from agentcompass.activities.reuse.inputs import artifact_digests, input_digests
from agentcompass.activities.reuse.settings import settings_digest
from agentcompass.activities.save import success_reader
from agentcompass.activities.services import RequestComponents, build_components
from agentcompass.activities.store import (
    DriverRecord,
    RequestState,
    RunStore,
    recorded_request,
    run_path,
    task_digest,
)
from agentcompass.contracts import Issue, IssuePhase, RunRequest, RunResult, Severity, TaskSpec, TaskStatus
from agentcompass.contracts.activities import AttemptRef, ExecutionRef
from agentcompass.contracts.launch import LaunchRuntime
from agentcompass.contracts.plan import ExecutionPlan
from agentcompass.contracts.records import (
    AttemptCheckpoint,
    AttemptRecord,
    EvaluationCheckpoint,
    Identity,
    ReusedFrom,
    RunInfo,
)
from agentcompass.contracts.task import MediaItem, PreparedTask, TaskInput
from agentcompass.plugins.registry import load_registry

LABEL = "m_qa_oracle"


@dataclass
class Runs:
    """Makes runs in one results directory; the next one starts later than the ones before."""

    folder: Path
    questions: dict[str, str] = field(default_factory=lambda: {"q1": "one?", "q2": "two?"})
    started: int = 0

    @property
    def results(self) -> Path:
        return self.folder / "results"

    def request(self, **parts: Any) -> RunRequest:
        """``request(execution={…}, runtime={…})``"""
        value = {
            "benchmark": {"id": "qa", "params": {"path": str(self.folder / "tasks.jsonl")}},
            "harness": {"id": "oracle"},
            "environment": {"id": "host_process"},
            "model": {"id": "m"},
            **parts,
        }
        return RunRequest.model_validate(value)

    def components(self, request: RunRequest) -> RequestComponents:
        return build_components(request, load_registry(()))

    async def start(
        self, run_id: str, request: RunRequest | None = None, reused_from: ReusedFrom | None = None
    ) -> RunStore:
        """A run directory with its task list, and nothing finished."""
        request = request or self.request()
        lines = [{"id": name, "question": text, "answer": "yes"} for name, text in self.questions.items()]
        tasks = self.folder / "tasks.jsonl"
        tasks.with_suffix(".new").write_text("".join(json.dumps(line) + "\n" for line in lines))
        tasks.with_suffix(".new").replace(tasks)  # another run may be reading it
        self.started += 1
        store = RunStore.reserve(run_path(self.results, "", LABEL, run_id), owner=self.owner(run_id))
        state = RequestState(
            run_id=run_id,
            launch_id=run_id,
            request_key="one",
            request=request,
            runtime=LaunchRuntime(results_dir=str(self.results)),
        )
        store.save_request(state)
        info = RunInfo(
            run_id=run_id,
            started_at=f"2026-01-01T00:00:{self.started:02d}+00:00",
            request=recorded_request(request, run_id),
            reused_from=reused_from,
        )
        store.files.start_run_info(info)
        store.save_tasks(await self.components(request).benchmark.load_tasks(request))
        return store

    def owner(self, run_id: str) -> DriverRecord:
        return DriverRecord(launch_id=run_id, request_key="one")

    def task(self, store: RunStore, task_id: str) -> TaskSpec:
        return next(store.task(entry.index) for entry in store.task_entries() if entry.task_id == task_id)

    def plan(self, store: RunStore, task_id: str, attempt: int) -> ExecutionPlan:
        return plan_attempt(self.components(store.request()), self.task(store, task_id), attempt)

    def finish(
        self,
        store: RunStore,
        task_id: str,
        attempt: int = 1,
        *,
        correct: bool | None = True,
        severity: Severity | None = None,
        message: str = "m",
        status: TaskStatus = TaskStatus.COMPLETED,
        retry_count: int = 0,
        identified: bool = True,
    ) -> None:
        """Save the result of an attempt."""
        issues = (
            [Issue(severity=severity, phase=IssuePhase.RUN, code="c", message=message)] if severity else []
        )
        plan = self.plan(store, task_id, attempt)
        identity = Identity(
            task_digest=task_digest(self.task(store, task_id)),
            plan_digest=plan_digest(plan),
            settings_digest=settings_digest(self.components(store.request())),
        )
        record = AttemptRecord(
            status=status,
            metrics={} if correct is None else {"correct": correct},
            final_answer=f"answer {attempt}",
            issues=issues,
            plan=plan,
            identity=identity if identified else None,
        )
        checkpoint = AttemptCheckpoint(
            task_id=task_id, attempt=attempt, retry_count=retry_count, record=record, ground_truth="yes"
        )
        store.save_attempt(checkpoint, store.request().execution.attempts, self.success_of(store))

    def leave_unscored(
        self, store: RunStore, task_id: str, attempt: int = 1, *, execution: int = 1, media: str | None = None
    ) -> EvaluationCheckpoint:
        """Save an evaluation checkpoint with one collected file, ``out.txt``."""
        ref = self.ref(store, task_id, attempt).model_copy(update={"execution": execution})
        directory = store.execution(ref).artifact_dir()
        (directory / "out.txt").write_text(f"output of {task_id}")
        plan = self.plan(store, task_id, attempt)
        items = [MediaItem(type="image", path=media)] if media else []
        prepared = PreparedTask(task_id=task_id, input=TaskInput(prompt="p", media=items))
        manifest = {"directory": store.execution(ref).artifact_path(), "complete": True}
        checkpoint = EvaluationCheckpoint(
            task_id=task_id,
            attempt=attempt,
            execution=execution,
            mode=plan.evaluation_environment_mode,
            prepared=prepared,
            result=RunResult(task_id=task_id, final_answer="yes", artifacts={"declared_artifacts": manifest}),
            identity=unscored_identity(
                task_digest(self.task(store, task_id)),
                plan,
                settings_digest(self.components(store.request())),
            ),
            run_network_policy=plan.run_network_policy,
            evaluation_network_policy=plan.evaluation_network_policy,
            source_run=store.run_id,
            digests={**artifact_digests(directory), **input_digests(prepared)},
        )
        store.evaluation_checkpoints.save(checkpoint)
        return checkpoint

    def ref(self, store: RunStore, task_id: str, attempt: int = 1) -> ExecutionRef:
        index = next(entry.index for entry in store.task_entries() if entry.task_id == task_id)
        ref = AttemptRef(run_dir=str(store.run_dir), task_index=index, task_id=task_id, attempt=attempt)
        return ExecutionRef(**ref.model_dump())

    def success_of(self, store: RunStore) -> Any:
        return success_reader(self.components(store.request()).benchmark.metric_contract)

    async def reuse(self, run_id: str, **parts: Any) -> tuple[RunStore, ReuseReport]:
        """A new run that continues the latest one."""
        runtime = {"reuse": True, **parts.pop("runtime", {})}
        request = self.request(runtime=runtime, **parts)
        source = find_source(request, self.results, self.owner(run_id))
        assert source is not None
        store = await self.start(run_id, request, source.reused_from)
        return store, await take_over(self.components(request), store, source, self.success_of(store))


def contents(run_dir: Path) -> dict[str, str]:
    """Digest of every file, by name: equal when nothing was changed, added or removed."""
    return {
        path.relative_to(run_dir).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(run_dir.rglob("*"))
        if path.is_file() and "locks" not in path.parts
    }
