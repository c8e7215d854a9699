"""Go through the tasks of a new run and take over what another run has finished of each."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence

from ...contracts.activities import AttemptRef
from ...contracts.component import blocking
from ...contracts.errors import RecordError
from ...contracts.plan import ExecutionPlan
from ...contracts.records import AttemptCheckpoint, AttemptRecord, EvaluationCheckpoint, Identity, TaskRecord
from ...contracts.scheduling import attempts_remaining
from ..classification import describe
from ..hook_calls import call_hook
from ..identity import plan_digest
from ..planner import plan_attempt
from ..services import RequestComponents
from ..store import (
    BorrowedRecord,
    RunStore,
    TakeOver,
    TaskEntry,
    UnclassifiedRecordError,
    compose,
    decompose,
    is_unscored,
    outcome_of,
    task_digest,
    worst_severity,
)
from ..threads import in_settled_thread
from .history import remembered
from .report import ReuseReport
from .resuming import adopt_evaluation
from .settings import differences, settings_digest, settings_of
from .source import ReuseSource
from .verdicts import Verdict, judge

SuccessOf = Callable[[AttemptRecord], bool | None]
_log = logging.getLogger(__name__)


async def take_over(
    components: RequestComponents, target: RunStore, source: ReuseSource, success_of: SuccessOf
) -> ReuseReport:
    """Take over everything that still counts. Running it twice is safe; the source is only read."""
    entries = target.task_entries()
    report = ReuseReport(source_run=source.reused_from.run_id, total_tasks=len(entries))
    taking = await in_settled_thread(_TakingOver, components, target, source, success_of, report)
    # Tasks are planned by extensions, which may hang: as hooks do, they get a thread that can be left behind.
    await call_hook(taking.take_all, entries, abandoned=lambda _: taking.abandon())
    await in_settled_thread(taking.work.sync)
    await in_settled_thread(target.mark_taken_over)
    report.log()
    return report


class _TakingOver:
    """The take-over of one run, a task at a time."""

    def __init__(
        self,
        components: RequestComponents,
        target: RunStore,
        source: ReuseSource,
        success_of: SuccessOf,
        report: ReuseReport,
    ) -> None:
        self.work = TakeOver(RunStore(source.run_dir, target.redactor), target)
        self._components = components
        self._target = target
        self._source_run = source.reused_from.run_id
        self._success_of = success_of
        self._report = report
        self._attempts = components.request.execution.attempts
        self._resume = components.request.runtime.checkpoint_resume
        self._abandoned = threading.Event()
        self._settings = settings_digest(components)
        report.other_settings = self._differences(components)

    def abandon(self) -> None:
        """Nobody waits for it any more: should an extension come back after all, nothing more is written."""
        self._abandoned.set()

    @blocking
    async def take_all(self, entries: Sequence[TaskEntry]) -> None:
        """Take over every task, one at a time, so that a cancellation gets through."""
        for entry in entries:
            if self.work.has_anything(entry.task_id):
                self.take(entry)
                await asyncio.sleep(0)

    def take(self, entry: TaskEntry) -> None:
        """Take over the task, or those of its attempts that count."""
        taken = self._target.task_record(entry.task_id)
        if taken is not None:  # by an earlier try of this step
            self._report.count_task(worst_severity(taken))
            self._count_settings(attempt.identity for attempt in taken.attempts.values())
            return
        found, problems = self.work.attempts(entry.task_id)
        for problem in problems:
            self._report.count_broken(entry.task_id, problem)
        with contextlib.ExitStack() as stack:
            borrowed = self._borrow(entry.task_id, stack)
            if borrowed is not None:
                found.update(decompose(borrowed.record))
            self._take(entry, found, borrowed)

    def _borrow(self, task_id: str, stack: contextlib.ExitStack) -> BorrowedRecord | None:
        try:
            return stack.enter_context(self.work.borrowed(task_id))
        except UnclassifiedRecordError as error:
            self._report.count_unclassified(task_id, error)
        except RecordError as error:
            self._report.count_broken(task_id, error)
        return None

    def _take(
        self, entry: TaskEntry, found: Mapping[int, AttemptCheckpoint], borrowed: BorrowedRecord | None
    ) -> None:
        plans = _Plans(self._components, self._target, entry, self._abandoned)
        kept = {number: item for number, item in sorted(found.items()) if self._counts(plans, number, item)}
        outcomes = [outcome_of(item, self._success_of(item.record)) for item in kept.values()]
        remaining = attempts_remaining(self._attempts, outcomes)
        self._count_settings(item.record.identity for item in kept.values())
        for number, item in kept.items():
            self.work.take_artifacts(entry.task_id, number)
            if is_unscored(item.record):
                self._carry_checkpoint(entry.task_id, number)
        if kept and not remaining:
            self._finish(kept, borrowed)
            return
        for item in kept.values():
            self._target.keep_attempt(remembered(item, self._source_run), self._success_of)
        self._report.kept_attempts += len(kept)
        if self._resume:
            for number in remaining:
                self._resume_evaluation(plans, number, found.get(number))

    def _counts(self, plans: _Plans, number: int, item: AttemptCheckpoint) -> bool:
        """Whether an attempt stands; one that the new run has no place for is no loss."""
        if number > self._attempts.k:
            return False
        plan = plans.get(number)
        if plan is None:
            return False
        identity = Identity(task_digest=plans.digest, plan_digest=plan_digest(plan))
        verdict = judge(item.record, identity, plan.retry.retry_pattern_list)
        if verdict is not Verdict.REUSED:
            self._report.count_again(plans.entry.task_id, number, verdict)
        return verdict is Verdict.REUSED

    def _finish(self, kept: Mapping[int, AttemptCheckpoint], borrowed: BorrowedRecord | None) -> None:
        """The task needs nothing more: its record is linked when it says what the new run would say."""
        record = borrowed.record if borrowed is not None else None
        if borrowed is not None and record is not None and self._unchanged(record, kept):
            self.work.take_record(borrowed)
        else:
            record = compose(
                {number: remembered(item, self._source_run) for number, item in kept.items()}, self._attempts
            )
            self._target.save_task_record(record)
        self._report.count_task(worst_severity(record))

    def _differences(self, components: RequestComponents) -> list[str]:
        """What the source was asked for otherwise, as far as it tells."""
        try:
            earlier = self.work.source.request()
        except RecordError:
            return []  # of an older version, or a copy without the hidden files
        return differences(settings_of(components, earlier), settings_of(components))

    def _count_settings(self, identities: Iterable[Identity | None]) -> None:
        """Count those made with other settings; an older record says nothing, its run may."""
        for identity in identities:
            made_with = identity.settings_digest if identity is not None else ""
            differs = made_with != self._settings if made_with else bool(self._report.other_settings)
            self._report.other_settings_attempts += differs

    def _unchanged(self, record: TaskRecord, kept: Mapping[int, AttemptCheckpoint]) -> bool:
        return record.attempt_plan == self._attempts and {int(number) for number in record.attempts} == set(
            kept
        )

    def _carry_checkpoint(self, task_id: str, attempt: int) -> None:
        """Keep the way open to evaluate a reused attempt without a score after all."""
        checkpoint = self._find_checkpoint(task_id, attempt)
        if checkpoint is not None:
            self._target.evaluation_checkpoints.save(checkpoint)

    def _resume_evaluation(self, plans: _Plans, number: int, earlier: AttemptCheckpoint | None) -> None:
        entry = plans.entry
        checkpoint = self._find_checkpoint(entry.task_id, number)
        plan = plans.get(number) if checkpoint is not None else None
        if checkpoint is None or plan is None:
            return
        ref = AttemptRef(
            run_dir=str(self._target.run_dir),
            task_index=entry.index,
            task_id=entry.task_id,
            attempt=number,
        )
        retries = earlier.retry_count if earlier is not None else 0
        reason = adopt_evaluation(self.work, checkpoint, ref, plan, plans.digest, retries)
        if reason:
            self._report.refused_evaluations += 1
            _log.warning("[%s a%d] the evaluation is not taken up: %s", entry.task_id, number, reason)
        else:
            self._report.resumed_evaluations += 1
            self._count_settings([checkpoint.identity])

    def _find_checkpoint(self, task_id: str, attempt: int) -> EvaluationCheckpoint | None:
        try:
            return self.work.source.evaluation_checkpoints.find(task_id, attempt)
        except RecordError as error:
            self._report.refused_evaluations += 1
            _log.warning("[%s a%d] the evaluation is not taken up: %s", task_id, attempt, error)
            return None


class _Plans:
    """The plans that the new run would make for a task, each made once."""

    def __init__(
        self, components: RequestComponents, target: RunStore, entry: TaskEntry, abandoned: threading.Event
    ) -> None:
        self.entry = entry
        self._abandoned = abandoned
        self._components = components
        self._task = target.task(entry.index)
        self.digest = task_digest(self._task)  # of the task as it is stored, as records have it
        self._made: dict[int, ExecutionPlan | None] = {}

    def get(self, attempt: int) -> ExecutionPlan | None:
        """The plan of an attempt; ``None`` when it cannot be made, which the attempt itself will report."""
        if attempt not in self._made:
            try:
                self._made[attempt] = plan_attempt(self._components, self._task, attempt)
            except Exception as error:  # extension code may raise anything; nothing is reused then
                _log.warning("[%s a%d] cannot be planned: %s", self.entry.task_id, attempt, describe(error))
                self._made[attempt] = None
            if self._abandoned.is_set():
                raise asyncio.CancelledError
        return self._made[attempt]
