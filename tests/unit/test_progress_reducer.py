"""progress.json as a function of the events."""

from hypothesis import given
from hypothesis import strategies as st

from agentcompass.contracts.progress import apply_event, snapshot_of
from agentcompass.contracts.records import EventName, ProgressEvent, ProgressSnapshot


class Events:
    """Numbered events, one second apart."""

    def __init__(self) -> None:
        self.made: list[ProgressEvent] = []

    def add(self, event: EventName, task_id: str | None = None, **fields: object) -> None:
        seq = len(self.made) + 1
        values = {"seq": seq, "key": str(seq), "run_id": "r", "event": event, "timestamp": 100.0 + seq}
        self.made.append(ProgressEvent.model_validate({**values, "task_id": task_id, **fields}))

    def snapshot(self) -> ProgressSnapshot:
        return snapshot_of("r", self.made)


def started(total: int) -> Events:
    events = Events()
    ids = {"model": "m", "benchmark": "b", "harness": "h", "environment": "e"}
    events.add("run_started", payload=ids)
    events.add("tasks_loaded", payload={"total_tasks": total})
    return events


def test_loaded_run_has_everything_pending() -> None:
    snapshot = started(5).snapshot()
    assert (snapshot.model, snapshot.benchmark, snapshot.harness, snapshot.environment) == (
        "m",
        "b",
        "h",
        "e",
    )
    assert (snapshot.status, snapshot.total_tasks, snapshot.pending_tasks) == ("running", 5, 5)
    assert (snapshot.started_at, snapshot.elapsed_seconds, snapshot.updated_at) == (101.0, 1.0, 102.0)
    assert snapshot.last_seq == 2


def test_reused_tasks_are_finished_and_completed() -> None:
    events = started(5)
    events.add(
        "reuse_loaded", payload={"reused_tasks": 2, "tasks_to_run": 3, "error_tasks": 1, "warning_tasks": 0}
    )
    snapshot = events.snapshot()
    assert (snapshot.reused_tasks, snapshot.finished_tasks, snapshot.completed_tasks) == (2, 2, 2)
    assert (snapshot.pending_tasks, snapshot.error_tasks) == (3, 1)


def test_running_task_shows_phase_and_attempt() -> None:
    events = started(2)
    events.add("task_started", "a", category="c")
    events.add("attempt_started", "a", attempt=1)
    events.add("phase_changed", "a", attempt=1, phase="run_harness")
    events.add("task_started", "b")
    snapshot = events.snapshot()
    assert (snapshot.pending_tasks, snapshot.running_tasks, snapshot.attempts_started) == (0, 2, 1)
    assert snapshot.current_phase_counts == {"run_harness": 1, "running": 1}
    active = snapshot.active_tasks["a"]
    assert (active.category, active.phase, active.attempt, active.updated_at) == (
        "c",
        "run_harness",
        1,
        105.0,
    )


def test_outcomes_are_counted_by_their_worst_severity() -> None:
    events = started(5)
    outcomes = [("a", "failed", "fatal"), ("b", "completed", "error"), ("c", "completed", "warning")]
    for task, status, severity in [*outcomes, ("d", "completed", None), ("e", "skipped", None)]:
        events.add("task_started", task)
        events.add("task_finished", task, status=status, payload={"severity": severity})
    snapshot = events.snapshot()
    assert (snapshot.finished_tasks, snapshot.completed_tasks, snapshot.skipped_tasks) == (5, 3, 1)
    assert (snapshot.failed_tasks, snapshot.error_tasks, snapshot.warning_tasks) == (1, 1, 1)
    assert (snapshot.running_tasks, snapshot.active_tasks, snapshot.current_phase_counts) == (0, {}, {})


def test_late_event_of_a_finished_task_does_not_bring_it_back() -> None:
    events = started(1)
    events.add("task_started", "a")
    events.add("task_finished", "a", status="completed", payload={"severity": None})
    events.add("phase_changed", "a", attempt=1, phase="evaluate")
    snapshot = events.snapshot()
    assert snapshot.active_tasks == {} and snapshot.current_phase_counts == {}


def test_reopened_task_takes_its_old_outcome_out_of_the_counters() -> None:
    events = started(2)
    events.add("task_started", "a")
    events.add("task_finished", "a", status="failed", payload={"severity": "fatal"})
    events.add("task_started", "a", payload={"reopened": {"status": "failed", "severity": "fatal"}})
    snapshot = events.snapshot()
    assert (snapshot.finished_tasks, snapshot.failed_tasks, snapshot.running_tasks) == (0, 0, 1)
    assert snapshot.pending_tasks == 1
    events.add("task_finished", "a", status="completed", payload={"severity": None})
    snapshot = events.snapshot()
    assert (snapshot.finished_tasks, snapshot.failed_tasks, snapshot.completed_tasks) == (1, 0, 1)


def test_finished_run_has_nothing_active_and_counts_the_rest_as_pending() -> None:
    events = started(3)
    events.add("task_started", "a")
    events.add("task_started", "b")
    events.add("task_finished", "b", status="completed", payload={"severity": None})
    events.add("summary_started")
    assert events.snapshot().status == "summarizing"
    events.add("run_finished", status="cancelled")
    snapshot = events.snapshot()
    assert (snapshot.status, snapshot.pending_tasks, snapshot.running_tasks) == ("cancelled", 2, 0)
    assert (snapshot.active_tasks, snapshot.current_phase_counts) == ({}, {})


def test_attempts_and_partials_are_counted() -> None:
    events = started(1)
    events.add("task_started", "a")
    for attempt in (1, 2):
        events.add("attempt_started", "a", attempt=attempt)
        events.add("attempt_finished", "a", attempt=attempt)
        events.add("partial_saved", "a")
    snapshot = events.snapshot()
    assert (snapshot.attempts_started, snapshot.attempts_finished, snapshot.partials_saved) == (2, 2, 2)


def test_clock_that_goes_back_never_makes_time_negative() -> None:
    snapshot = ProgressSnapshot(run_id="r")
    for seq, timestamp in ((1, 50.0), (2, 40.0)):
        event = {
            "seq": seq,
            "key": str(seq),
            "run_id": "r",
            "event": "summary_started",
            "timestamp": timestamp,
        }
        apply_event(snapshot, ProgressEvent.model_validate(event))
    assert (snapshot.elapsed_seconds, snapshot.updated_at) == (0.0, 50.0)


STEPS: list[EventName] = [
    "task_started",
    "phase_changed",
    "attempt_started",
    "attempt_finished",
    "task_finished",
]


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(STEPS), st.sampled_from(["plan", "evaluate"])))
)
def test_counters_add_up_after_every_event(sequence: list[tuple[str, EventName, str]]) -> None:
    events, finished = started(3), set[str]()
    for task, step, phase in sequence:
        if task in finished and step in ("task_started", "task_finished"):
            continue  # the same key: the writer has dropped it
        if step == "task_finished":
            finished.add(task)
        events.add(
            step, task, phase=phase, attempt=1, status="completed" if step == "task_finished" else None
        )
        snapshot = events.snapshot()
        assert snapshot.pending_tasks + snapshot.running_tasks + snapshot.finished_tasks == 3
        assert (
            snapshot.running_tasks
            == len(snapshot.active_tasks)
            == sum(snapshot.current_phase_counts.values())
        )
        assert snapshot.finished_tasks == snapshot.completed_tasks == len(finished)
