"""Go through the tasks of a new run and take over what another run has finished of each."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Mapping

from ...contracts.activities import AttemptRef
from ...contracts.errors import RecordError
from ...contracts.plan import ExecutionPlan
from ...contracts.records import AttemptCheckpoint, AttemptRecord, EvaluationCheckpoint, Identity, TaskRecord
from ...contracts.scheduling import attempts_remaining
from ..classification import describe
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
    for entry in entries:  # one at a time, so that a cancellation gets through
        if taking.work.has_anything(entry.task_id):
            await in_settled_thread(taking.take, entry)
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

    def take(self, entry: TaskEntry) -> None:
        """Take over the task, or those of its attempts that count."""
        taken = self._target.task_record(entry.task_id)
        if taken is not None:  # by an earlier try of this step
            self._report.count_task(worst_severity(taken))
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
        plans = _Plans(self._components, self._target, entry)
        kept = {number: item for number, item in sorted(found.items()) if self._counts(plans, number, item)}
        outcomes = [outcome_of(item, self._success_of(item.record)) for item in kept.values()]
        remaining = attempts_remaining(self._attempts, outcomes)
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

    def _find_checkpoint(self, task_id: str, attempt: int) -> EvaluationCheckpoint | None:
        try:
            return self.work.source.evaluation_checkpoints.find(task_id, attempt)
        except RecordError as error:
            self._report.refused_evaluations += 1
            _log.warning("[%s a%d] the evaluation is not taken up: %s", task_id, attempt, error)
            return None


class _Plans:
    """The plans that the new run would make for a task, each made once."""

    def __init__(self, components: RequestComponents, target: RunStore, entry: TaskEntry) -> None:
        self.entry = entry
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
        return self._made[attempt]
