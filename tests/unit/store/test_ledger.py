"""The ledger of open environments, and the index of runs that have any."""

import os
from pathlib import Path

import pytest

from agentcompass.activities.store.ledger import EnvironmentLedger, LedgerEntry
from agentcompass.activities.store.open_runs import OpenRuns
from agentcompass.activities.store.run_copy import copy_run
from agentcompass.contracts import EnvironmentHandle


def entry(name: str = "ac-one-a1-e1", opened_at: float = 1.0, host: str = "here") -> LedgerEntry:
    return LedgerEntry(
        environment_id=name,
        provider="box",
        params={"token": "env:TOKEN"},
        labels={"launch": "l"},
        host=host,
        opened_at=opened_at,
    )


@pytest.fixture
def ledger(tmp_path: Path) -> EnvironmentLedger:
    return EnvironmentLedger(tmp_path / "run")


def test_an_intent_names_the_environment_before_it_exists(ledger: EnvironmentLedger) -> None:
    ledger.add(entry())
    [found] = ledger.entries()
    assert (found.environment_id, found.handle, found.params) == (
        "ac-one-a1-e1",
        None,
        {"token": "env:TOKEN"},
    )
    assert found.known_handle == EnvironmentHandle(provider="box", id="ac-one-a1-e1")


def test_an_open_environment_is_known_by_its_handle(ledger: EnvironmentLedger) -> None:
    intent = entry()
    ledger.add(intent)
    handle = EnvironmentHandle(provider="box", id="ac-one-a1-e1", data={"container": "c1"})
    ledger.note_handle(intent, handle)
    assert [found.known_handle for found in ledger.entries()] == [handle]


def test_what_was_removed_while_it_opened_is_not_entered_again(ledger: EnvironmentLedger) -> None:
    intent = entry()
    ledger.add(intent)
    ledger.remove(intent.environment_id)
    ledger.note_handle(intent, EnvironmentHandle(provider="box", id=intent.environment_id))
    assert ledger.empty()


def test_removed_environments_are_forgotten_and_the_others_are_told_oldest_first(
    ledger: EnvironmentLedger,
) -> None:
    for name, opened_at in (("late", 3.0), ("gone", 2.0), ("early", 1.0)):
        ledger.add(entry(name, opened_at))
    ledger.remove("gone")
    ledger.remove("gone")
    assert [found.environment_id for found in ledger.entries()] == ["early", "late"]
    assert not ledger.empty()


def test_failed_removals_are_counted_with_the_last_reason(ledger: EnvironmentLedger) -> None:
    ledger.add(entry())
    ledger.note_failed_removal("ac-one-a1-e1", "the engine is away")
    ledger.note_failed_removal("ac-one-a1-e1", "x" * 10_000)
    ledger.note_failed_removal("unknown", "nothing to note")
    [found] = ledger.entries()
    assert (found.failed_removals, len(found.error)) == (2, 500)


def test_a_sign_of_life_moves_the_time_of_the_entry(ledger: EnvironmentLedger, tmp_path: Path) -> None:
    ledger.add(entry())
    [path] = (tmp_path / "run" / ".state" / "environments").iterdir()
    os.utime(path, (100, 100))
    assert ledger.entries()[0].renewed_at == 100
    ledger.note_life("ac-one-a1-e1")
    ledger.note_life("unknown")
    assert ledger.entries()[0].renewed_at > 1_000_000


def test_an_entry_that_cannot_be_read_hides_no_other(ledger: EnvironmentLedger, tmp_path: Path) -> None:
    ledger.add(entry())
    (tmp_path / "run" / ".state" / "environments" / "broken.json").write_text('{"cut')
    assert [found.environment_id for found in ledger.entries()] == ["ac-one-a1-e1"]


def test_a_copy_of_a_run_owns_no_environment(ledger: EnvironmentLedger, tmp_path: Path) -> None:
    ledger.add(entry())
    copy_run(tmp_path / "run", tmp_path / "copy")
    assert EnvironmentLedger(tmp_path / "copy").empty()


def test_runs_with_open_environments_are_in_the_index_until_they_have_none(tmp_path: Path) -> None:
    runs, run_dir = OpenRuns(tmp_path / "home"), tmp_path / "run"
    EnvironmentLedger(run_dir).add(entry())
    runs.note(str(run_dir))
    runs.note(str(run_dir))
    runs.note(str(tmp_path / "vanished"))
    assert runs.all() == [run_dir]
    EnvironmentLedger(run_dir).remove("ac-one-a1-e1")
    assert runs.all() == []
    assert list((tmp_path / "home" / "environments" / "runs").iterdir()) == []


def test_an_index_that_cannot_be_written_stops_no_run(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "home").write_text("a file where the folder should be")
    OpenRuns(tmp_path / "home").note(str(tmp_path / "run"))
    assert "cannot be noted" in caplog.text
