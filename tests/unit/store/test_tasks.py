"""The task list: any task in one step, pages of what is still to do."""

from collections.abc import Callable

import pytest

from agentcompass.activities.redaction import Redactor
from agentcompass.activities.store import RunStore, task_digest
from agentcompass.contracts import AttemptsSpec, RecordError, TaskSpec
from agentcompass.contracts.activities import FinishedAttempt
from agentcompass.contracts.records import AttemptCheckpoint, AttemptRecord

MakeAttempt = Callable[..., AttemptCheckpoint]


def correct(record: AttemptRecord) -> bool | None:
    value = record.metrics.get("correct")
    return bool(value) if value is not None else None


def test_task_is_read_by_its_index(store: RunStore) -> None:
    tasks = [TaskSpec(task_id=f"HumanEval/{i}", question="zeile\n" * i) for i in range(50)]
    store.save_tasks(tasks)
    assert store.task_count() == 50
    assert [store.task(index) for index in (0, 17, 49)] == [tasks[0], tasks[17], tasks[49]]


def test_reading_one_task_does_not_read_the_others(store: RunStore) -> None:
    store.save_tasks([TaskSpec(task_id=f"t{i}") for i in range(3)])
    path = store.run_dir / ".state" / "tasks.jsonl"
    path.write_bytes(path.read_bytes().replace(b"t0", b'"{').replace(b"t2", b'"{'))
    assert store.task(1).task_id == "t1"


@pytest.mark.parametrize("index", [-1, 3])
def test_index_outside_the_list_is_an_error(store: RunStore, index: int) -> None:
    store.save_tasks([TaskSpec(task_id=f"t{i}") for i in range(3)])
    with pytest.raises(RecordError, match=f"there is no task {index}"):
        store.task(index)


def test_list_that_was_never_written_is_an_error_that_says_so(store: RunStore) -> None:
    assert not store.has_tasks()
    with pytest.raises(RecordError, match="the task list was never written"):
        store.task_count()
    with pytest.raises(RecordError, match="the task list was never written"):
        store.task(0)


def test_empty_list_is_a_list(store: RunStore) -> None:
    store.save_tasks([])
    assert store.has_tasks() and store.task_count() == 0 and store.pending_tasks(0, 10).tasks == []


def test_entries_are_paged_in_order(store: RunStore) -> None:
    store.save_tasks([TaskSpec(task_id=f"t{i}", category=f"c{i}") for i in range(5)])
    page = store.task_entries(2, 2)
    assert [(entry.index, entry.task_id, entry.category) for entry in page] == [
        (2, "t2", "c2"),
        (3, "t3", "c3"),
    ]
    assert len(store.task_entries()) == 5


def test_digest_follows_content_only() -> None:
    task = TaskSpec(task_id="t", metadata={"a": 1, "b": 2})
    assert task_digest(task) == task_digest(TaskSpec(task_id="t", metadata={"b": 2, "a": 1}, category=""))
    assert task_digest(task) != task_digest(TaskSpec(task_id="t", metadata={"a": 1, "b": 3}))


def test_registered_secret_does_not_reach_the_task_list(store: RunStore, redactor: Redactor) -> None:
    redactor.register("hunter2-hunter2")
    store.save_tasks([TaskSpec(task_id="t", question="use hunter2-hunter2"), TaskSpec(task_id="u")])
    assert store.task(0).question == "use ***" and store.task(1).task_id == "u"
    assert b"hunter2" not in (store.run_dir / ".state" / "tasks.jsonl").read_bytes()


def test_pending_pages_leave_out_finished_tasks_and_name_finished_attempts(
    store: RunStore, attempt: MakeAttempt
) -> None:
    store.save_tasks([TaskSpec(task_id=f"T{i}", category="c") for i in range(6)])
    two = AttemptsSpec(k=2)
    for number in (1, 2):
        store.save_attempt(attempt("T1", number), two, correct)
    store.save_attempt(attempt("T3", 2, correct=False), two, correct)
    first = store.pending_tasks(0, 3)
    assert [(task.index, task.task_id) for task in first.tasks] == [(0, "T0"), (2, "T2"), (3, "T3")]
    assert first.tasks[2].finished_attempts == [FinishedAttempt(attempt=2, success=False, fatal=False)]
    assert first.next_offset == 4
    second = store.pending_tasks(4, 3)
    assert [task.task_id for task in second.tasks] == ["T4", "T5"] and second.next_offset is None
