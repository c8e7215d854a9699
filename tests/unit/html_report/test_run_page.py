"""The report of a run: what it shows, what it leaves out, and that nothing in it acts."""

from __future__ import annotations

import base64
import hashlib
import json
import tomllib
import tracemalloc
from fnmatch import fnmatch
from pathlib import Path

import pytest
from page_reader import read_page
from recorded_runs import fatal, scored, tasks_of, write_run

import agentcompass
from agentcompass.activities.html_report import find_runs, write_overview, write_run_report
from agentcompass.activities.html_report.run_page import MAX_TASK_CHARS
from agentcompass.activities.redaction import REDACTOR
from agentcompass.cli.main import run_cli
from agentcompass.contracts import Issue, IssuePhase, Severity, TaskSpec
from agentcompass.contracts.errors import UsageError
from agentcompass.contracts.launch import LaunchSummary, SummarizedRequest
from agentcompass.contracts.records import AttemptRecord
from agentcompass.contracts.result import (
    Observation,
    ResultMeta,
    TaskStatus,
    ToolCall,
    Trajectory,
    TrajectoryStep,
    Usage,
)

ROOT = Path(agentcompass.__file__).resolve().parent
HOSTILE = [
    "</script><script>document.title = 'owned'</script>",
    "<img src=x onerror=alert(1)>",
    "\"'><svg onload=alert(1)>",
    "<!--<script>",
    "]]></style><style>*{display:none}</style>",
    "javascript:alert(1)",
    "&lt;b&gt; &amp; \u2028\u2029 \x00\x1b[31m\x9b \u202egnp.exe",
]


def hostile_attempt(text: str) -> AttemptRecord:
    """An attempt that says ``text`` wherever it can say anything."""
    step = TrajectoryStep(
        step_id=1,
        source="agent",
        message=text,
        reasoning=text,
        tool_calls=[ToolCall(name=text, arguments={text: text})],
        observations=[Observation(content=[text])],
        model=text,
        usage=Usage(prompt_tokens=10, completion_tokens=5),
        stop_reason=text,
    )
    issue = Issue(severity=Severity.ERROR, phase=IssuePhase.RUN, code=text[:200], message=text)
    return AttemptRecord(
        status=TaskStatus.RUN_ERROR,
        metrics={"correct": False},
        final_answer={text: text},
        trajectory=Trajectory(steps=[step]),
        issues=[issue],
        artifacts={text: text},
        meta=ResultMeta(benchmark={text: text}, timings={text: 1.0}),
        extra={text: text},
    )


def test_nothing_that_a_task_or_a_model_says_becomes_markup(tmp_path: Path) -> None:
    tasks = [
        TaskSpec(task_id=text, question=text, category=text, ground_truth={text: text}) for text in HOSTILE
    ]
    write_run(tmp_path / "plain", {"a": [scored(False)]})
    write_run(
        tmp_path / "hostile",
        {text: [hostile_attempt(text)] for text in HOSTILE},
        tasks=tasks,
        model=HOSTILE[0],
    )
    plain = read_page(write_run_report(tmp_path / "plain"))
    page = read_page(write_run_report(tmp_path / "hostile"))
    assert page.scripts == plain.scripts and page.styles == plain.styles
    assert page.names() - plain.names() <= {"title", "line", "button", "details", "summary", "pre", "h3", "b"}
    assert not page.names() & {"img", "iframe", "object", "link", "base", "form", "embed"}
    acting = [key for _, attributes in page.elements for key in attributes if key.startswith("on")]
    links = [attributes["href"] or "" for _, attributes in page.elements if "href" in attributes]
    assert (acting, [link for link in links if not link.startswith(("./", "http"))]) == ([], [])
    details = [page.blocks[f"t{number}"] for number in range(len(HOSTILE))]
    assert [detail["question"] for detail in details[:6]] == HOSTILE[:6]
    assert [detail["attempts"][0]["head"][0]["text"] for detail in details[:6]] == HOSTILE[:6]


def test_names_of_folders_and_models_do_not_become_markup_in_the_comparison(tmp_path: Path) -> None:
    folder = tmp_path / "<img src=x onerror=alert(1)>"
    write_run(
        folder / "a" / "<svg onload=alert(1)>",
        {"a": [scored(True)]},
        model="</title><script>alert(1)</script>",
    )
    page = read_page(write_overview(folder, find_runs(folder)))
    assert page.names() <= set(
        "html head meta title style body main header h1 h2 div span button section".split()
    ) | set("table thead tbody tr th td svg rect line script".split())
    assert len(page.scripts) == 1 and "<svg onload=alert(1)>" in page.text


def test_characters_that_act_are_shown_as_symbols(tmp_path: Path) -> None:
    write_run(tmp_path / "run", {"a": [scored(True, answer="\x1b[31mred\x1b[0m \x00\x07 \u202eevil")]})
    page = read_page(write_run_report(tmp_path / "run"))
    assert page.detail("a")["attempts"][0]["answer"] == "red ␀␇ \ufffdevil"


def test_the_policy_loads_nothing_and_allows_exactly_the_pages_own_script_and_style(tmp_path: Path) -> None:
    write_run(tmp_path / "run", {"a": [scored(True)]})
    page = read_page(write_run_report(tmp_path / "run"))
    [script], [style] = page.scripts, page.styles
    digests = {
        name: f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
        for name, text in (("script-src", script), ("style-src", style))
    }
    directives = dict(item.split(" ", 1) for item in page.policy().split("; "))
    assert directives["default-src"] == "'none'"
    assert {name: directives[name] for name in digests} == digests
    assert not [key for _, attributes in page.elements for key in attributes if key in ("src", "style")]


def test_style_and_script_are_packaged() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    patterns = project["tool"]["setuptools"]["package-data"]["agentcompass.activities.html_report"]
    files = [path for path in (ROOT / "activities" / "html_report").iterdir() if path.is_file()]
    assets = {path.name for path in files if path.suffix != ".py"}
    assert {name for name in assets if any(fnmatch(name, pattern) for pattern in patterns)} == assets


def test_summary_coverage_and_every_kind_of_result_are_shown(tmp_path: Path) -> None:
    records = {"good": [scored(True)], "bad": [scored(False)], "none": [scored(None)], "open": []}
    write_run(tmp_path / "run", records, tasks=tasks_of(list(records), {"good": "math"}))
    page = read_page(write_run_report(tmp_path / "run"))
    assert {row["id"]: row["result"] for row in page.rows} == {
        "good": "pass",
        "bad": "fail",
        "none": "unscored",
        "open": "not_run",
    }
    assert "correct.native@1" in page.text and "0.5000" in page.text
    assert "2 of 4 tasks evaluated" in page.text
    assert page.detail("good")["question"] == "What is good?"


def test_an_invalidated_run_says_that_its_number_is_for_reference_only(tmp_path: Path) -> None:
    write_run(tmp_path / "run", {"a": [scored(True)], "b": [fatal()]})
    page = read_page(write_run_report(tmp_path / "run"))
    assert "EVALUATION FAILED" in page.text and "for reference only" in page.text
    assert (page.row("b")["result"], page.row("b")["severity"]) == ("invalid", "fatal")


def test_damaged_and_older_records_are_shown_as_such(tmp_path: Path) -> None:
    write_run(tmp_path / "run", {name: [scored(True)] for name in ("ok", "cut", "deep", "old", "wrong")})
    details = tmp_path / "run" / "details"
    (details / "cut.json").write_text('{"schema_version": "agentcompass.task.v3", "task')
    (details / "deep.json").write_text('{"a":' + "[" * 200_000)
    (details / "old.json").write_text(
        json.dumps(
            {
                "schema_version": "agentcompass.task.v2",
                "task_id": "old",
                "attempts": {"1": {"status": "error", "error": "no issues then"}},
            }
        )
    )
    (details / "wrong.json").unlink()
    (details / "wrong.json").symlink_to("/etc/passwd")
    page = read_page(write_run_report(tmp_path / "run"))
    found = {row["id"]: row["result"] for row in page.rows}
    assert found == {"ok": "pass", "cut": "damaged", "deep": "damaged", "old": "older", "wrong": "damaged"}
    assert "root:" not in json.dumps(page.blocks)
    assert "no issues then" in page.detail("old")["content"]
    assert page.detail("cut")["problem"].startswith("details/cut.json: not a valid TaskRecord")


@pytest.mark.parametrize(
    "name",
    [
        "run_info.json",
        "metrics.json",
        ".state/tasks.entries.jsonl",
        ".state/request.json",
        ".state/tasks.index",
    ],
)
def test_each_damaged_file_costs_its_own_part_only(tmp_path: Path, name: str) -> None:
    write_run(tmp_path / "run", {"a": [scored(True)], "b": [scored(False)]})
    (tmp_path / "run" / name).write_bytes(b'{"schema_version": [1, \xff')
    page = read_page(write_run_report(tmp_path / "run"))
    assert [row["id"] for row in page.rows] == ["a", "b"]


def test_a_run_that_is_not_over_shows_what_has_finished(tmp_path: Path) -> None:
    write_run(tmp_path / "run", {"a": [scored(True)], "b": []}, finished=False)
    page = read_page(write_run_report(tmp_path / "run"))
    assert "The run is not over" in page.text and "not over" in page.text
    assert [row["result"] for row in page.rows] == ["pass", "not_run"]


def test_known_secrets_are_masked_also_where_texts_are_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_run(tmp_path / "run", {"a": [scored(True, answer="x" * 158 + "canary-8f3a-secret")]})
    monkeypatch.setenv("KEY", "canary-8f3a-secret")  # the run's key is env:KEY
    monkeypatch.setattr(REDACTOR, "_values", ())
    monkeypatch.setattr(REDACTOR, "_needles", ())
    text = write_run_report(tmp_path / "run").read_text()
    assert "canary" not in text and "xx***" in text


def test_text_of_a_task_is_bounded_and_says_what_is_left_out(tmp_path: Path) -> None:
    steps = [
        TrajectoryStep(step_id=at, source="agent", message=f"step {at} " + "y" * 5000) for at in range(1, 200)
    ]
    record = scored(True, answer="z" * 1_000_000).model_copy(update={"trajectory": Trajectory(steps=steps)})
    write_run(tmp_path / "run", {"a": [record]})
    page = read_page(write_run_report(tmp_path / "run"))
    detail = page.detail("a")
    assert len(json.dumps(detail)) < 1.3 * MAX_TASK_CHARS
    assert detail["cut"] > 900_000
    attempt = detail["attempts"][0]
    assert attempt["head"][0]["number"] == 1 and attempt["tail"][-1]["number"] == 199
    assert len(attempt["head"]) + attempt["omitted"] + len(attempt["tail"]) == 199


def test_a_large_run_is_written_task_by_task(tmp_path: Path) -> None:
    step = TrajectoryStep(step_id=1, source="agent", message="m" * 50_000)
    record = scored(True).model_copy(update={"trajectory": Trajectory(steps=[step])})
    write_run(tmp_path / "run", {f"t{number:03}": [record] for number in range(200)})
    tracemalloc.start()
    report = write_run_report(tmp_path / "run")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert report.stat().st_size > 5_000_000
    assert peak < 3_000_000


def test_only_a_report_of_this_program_is_replaced(tmp_path: Path) -> None:
    write_run(tmp_path / "run", {"a": [scored(True)]})
    target = tmp_path / "mine.html"
    assert write_run_report(tmp_path / "run", target) == target
    write_run_report(tmp_path / "run", target)
    target.write_text("<html>notes</html>")
    with pytest.raises(UsageError, match="is no report of this program"):
        write_run_report(tmp_path / "run", target)
    assert target.read_text() == "<html>notes</html>"
    link = tmp_path / "link.html"
    link.symlink_to(target)
    with pytest.raises(UsageError, match="no plain file"):
        write_run_report(tmp_path / "run", link)
    with pytest.raises(UsageError, match="is a directory"):
        write_run_report(tmp_path / "run", tmp_path)
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_record_files_are_linked_from_wherever_the_report_is(tmp_path: Path) -> None:
    write_run(tmp_path / "run", {"a b/c": [scored(True)]})
    (tmp_path / "out").mkdir()
    report = write_run_report(tmp_path / "run", tmp_path / "out" / "report.html")
    link = read_page(report).rows[0]["file"]
    assert link.startswith("./../run/details/")
    assert (report.parent / link).exists()


def test_a_folder_of_runs_becomes_a_table_that_compares_them(tmp_path: Path) -> None:
    write_run(tmp_path / "results" / "one" / "r1", {"a": [scored(True)], "b": [scored(False)]}, model="m/one")
    write_run(tmp_path / "results" / "two" / "r2", {"a": [scored(True)], "b": [scored(True)]}, model="m/two")
    (tmp_path / "results" / "loop").symlink_to(tmp_path / "results")
    runs = find_runs(tmp_path / "results")
    assert [path.name for path in runs] == ["r1", "r2"]
    write_run_report(runs[1])
    page = read_page(write_overview(tmp_path / "results", runs))
    assert page.text.index("two/r2") < page.text.index("one/r1"), "the best first"
    assert [attributes.get("href") for name, attributes in page.elements if name == "a"] == [
        "./two/r2/report.html"
    ]
    with pytest.raises(UsageError, match="there is none in it"):
        write_overview(tmp_path, [])


def test_the_command_says_where_the_report_is_and_refuses_what_is_no_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_run(tmp_path / "results" / "one" / "r1", {"a": [scored(True)]})
    (tmp_path / "empty").mkdir()
    run_dir = tmp_path / "results" / "one" / "r1"
    assert run_cli(["view", str(run_dir)]) == 0
    assert capsys.readouterr().out == f"Report: {run_dir / 'report.html'}\n"
    assert run_cli(["view", str(tmp_path / "results"), "--each"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == f"Report: {tmp_path / 'results' / 'report.html'}"
    assert run_cli(["view", str(tmp_path / "empty")]) == 2
    assert run_cli(["view", str(run_dir), "--each"]) == 2
    assert run_cli(["view", str(tmp_path / "nowhere")]) == 2
    assert capsys.readouterr().err.count("Error: ") == 3


def test_folder_of_a_launch_shows_its_runs_and_the_requests_that_have_none(tmp_path: Path) -> None:
    results = tmp_path / "results"
    write_run(results / "one" / "r1", {"a": [scored(True)]})
    write_run(results / "other" / "r9", {"a": [scored(True)]})
    summary = LaunchSummary(
        launch_id="weekly-1",
        name="weekly",
        status="partial_failure",
        started_at="2026-01-02T03:04:05+00:00",
        finished_at="2026-01-02T04:04:05+00:00",
        requests=[
            SummarizedRequest(name="1-one", status="completed", run_dir="one/r1"),
            SummarizedRequest(name="2-two", status="failed", error="no such file: q.jsonl"),
            SummarizedRequest(name="3-three", status="completed", run_dir="three/r3"),
        ],
    )
    folder = results / "launches" / "weekly-1"
    folder.mkdir(parents=True)
    (folder / "launch_summary.json").write_text(summary.model_dump_json())
    page = read_page(write_overview(folder, find_runs(folder)))
    assert "Launch weekly: partial_failure" in page.text
    assert "one/r1" in page.text and "r9" not in page.text
    assert "2-two: failed, no such file: q.jsonl" in page.text
    assert "3-three: completed, its run is no longer there" in page.text
