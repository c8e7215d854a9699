"""Names of files and directories: readable, safe, unique."""

import time
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentcompass.activities.store.layout import run_id_at, run_path, safe_component, task_file_stem
from agentcompass.contracts.errors import UsageError


@pytest.mark.parametrize("task_id", ["q1", "django__django-11099", "a.b=c", "0"])
def test_plain_lower_case_task_ids_are_their_own_file_names(task_id: str) -> None:
    assert task_file_stem(task_id) == task_id


@pytest.mark.parametrize(
    ("task_id", "readable"),
    [
        ("HumanEval/0", "HumanEval_0-"),
        ("../x", "x-"),
        ("a b", "a_b-"),
        ("CON", "task_CON-"),
        ("con.txt", "task_con.txt-"),
        ("_error_q1", "error_q1-"),
        ("Q1", "Q1-"),
        ("日本語" * 100, "task-"),
        ("x" * 300, "x" * 100 + "-"),
        ("q1-0123456789ab", "q1-0123456789ab-"),
        ("dot.", "dot-"),
    ],
)
def test_other_task_ids_are_made_safe_and_get_a_digest(task_id: str, readable: str) -> None:
    stem = task_file_stem(task_id)
    assert stem.startswith(readable)
    digest = stem[len(readable) :]
    assert len(digest) == 12 and set(digest) <= set("0123456789abcdef")


def test_file_names_differ_even_where_case_is_ignored() -> None:
    ids = ["q1", "Q1", "q_1", "q 1", "q/1", "q1.", "_q1", "q1-", "CON", "con", "q1 "]
    assert len({task_file_stem(task_id).lower() for task_id in ids}) == len(ids)


@given(st.text(min_size=1))
def test_every_text_gives_a_safe_component_that_fits(text: str) -> None:
    stem = task_file_stem(text)
    assert stem.isascii() and len(f"_error_{stem}.attempt10000.retry1000.{'s' * 60}.json") <= 255
    assert not set(stem) & set("/\\ :*?") and stem[0] not in ".-_" and stem[-1] != "."


def test_run_path_has_run_name_label_and_run_id() -> None:
    path = run_path("results", "group/ablation 1", "org/m_b_h", "base:line")
    assert path == Path("results/group/ablation_1/org_m_b_h/base_line")


def test_run_path_without_run_name_has_two_levels() -> None:
    assert run_path("results", "", "one", "x") == Path("results/one/x")


@pytest.mark.parametrize("run_name", ["../out", "/etc", "a/../../b", "..\\out", "C:\\x"])
def test_run_name_that_would_leave_the_results_directory_is_refused(run_name: str) -> None:
    with pytest.raises(UsageError, match="would leave the results directory"):
        run_path("results", run_name, "one", "x")


@pytest.mark.parametrize("run_id", ["", " ", ".", "..", "..."])
def test_run_id_that_names_no_directory_below_is_refused(run_id: str) -> None:
    with pytest.raises(UsageError, match="cannot be the name of a directory"):
        run_path("results", "", "one", run_id)


def test_component_is_never_hidden() -> None:
    assert safe_component(".state") == "_state"


def test_long_components_are_cut_and_stay_different() -> None:
    one, two = safe_component("m" * 300 + "1"), safe_component("m" * 300 + "2")
    assert len(one) <= 255 and one != two


def test_default_run_id_is_the_time_plus_a_second_per_collision() -> None:
    assert run_id_at(datetime(2026, 1, 2, 23, 59, 59)) == "20260102_235959"
    assert run_id_at(datetime(2026, 1, 2, 23, 59, 59), 1) == "20260103_000000"


def test_default_run_id_is_local_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Shanghai")
    time.tzset()
    try:
        assert run_id_at(datetime(2026, 1, 2, 20, 0, 0, tzinfo=UTC)) == "20260103_040000"
    finally:
        monkeypatch.undo()
        time.tzset()
