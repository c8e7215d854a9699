"""The HTML report in a real browser, where one is installed: its script runs, and nothing else does."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from recorded_runs import scored, write_run

from agentcompass.activities.html_report import write_run_report
from agentcompass.contracts import TaskSpec

BROWSER = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), ""
)
HOSTILE = "</script><script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"

pytestmark = pytest.mark.skipif(not BROWSER, reason="no Chromium is installed to open the report in")


def rendered(address: str, profile: Path) -> tuple[str, str]:
    """The document after its script has run, and what the browser complained about."""
    quiet = (
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
    )
    done = subprocess.run(
        [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", *quiet, f"--user-data-dir={profile}",
         "--enable-logging=stderr", "--virtual-time-budget=5000", "--dump-dom", address],
        capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    return done.stdout, "\n".join(line for line in done.stderr.splitlines() if "CONSOLE" in line)


def test_a_hostile_task_is_shown_in_table_and_detail_and_does_nothing(tmp_path: Path) -> None:
    task = TaskSpec(task_id=HOSTILE, question=HOSTILE, category=HOSTILE, ground_truth=HOSTILE)
    write_run(tmp_path / "run", {HOSTILE: [scored(False, answer=HOSTILE)]}, tasks=[task], model=HOSTILE)
    report = write_run_report(tmp_path / "run")
    document, complaints = rendered(f"{report.as_uri()}#task=1", tmp_path / "profile")
    assert complaints == ""
    assert "<title>owned" not in document and "<img" not in document
    shown = HOSTILE.replace("<", "&lt;").replace(">", "&gt;")
    table, _, detail = document.partition('<aside id="detail"')
    assert "1 of 1 tasks" in table and shown in table
    assert f"<pre>{shown}</pre>" in detail
