"""The entry point: help, exit codes, and what goes to which stream."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from agentcompass.cli.main import run_cli
from agentcompass.contracts import ServiceUnreachableError

HEAVY = ("temporalio", "docker", "httpx", "daytona", "modal", "rich", "yaml", "asyncio")

Break = Callable[[BaseException], None]


@pytest.fixture(autouse=True)
def own_home(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AGENTCOMPASS_HOME", str(tmp_path / "ac"))
    for name in list(os.environ):
        if name.startswith(("TEMPORAL_", "XDG_CONFIG", "AGENTCOMPASS_DEBUG")):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def broken(monkeypatch) -> Break:
    """Make the command `list benchmarks` fail in a way of the test's choice."""

    def break_with(error: BaseException) -> None:
        def fail(*_: object) -> None:
            raise error

        monkeypatch.setattr("agentcompass.plugins.registry.load_registry", fail)

    return break_with


@pytest.mark.parametrize(
    "arguments", [["--help"], ["run", "--help"], ["server", "--help"], ["worker", "--help"]]
)
def test_help_imports_nothing_heavy(arguments):
    code = (
        "import sys; from agentcompass.cli.main import run_cli; code = run_cli(sys.argv[1:]); "
        f"found = [name for name in {HEAVY!r} if name in sys.modules]; "
        "sys.exit(f'imported {found}' if found else code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "Usage: agentcompass" in done.stdout


def test_a_command_that_needs_http_does_not_load_the_command_line_of_httpx():
    command = [sys.executable, "-X", "importtime", "-m", "agentcompass.cli.main", "config", "show"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    loaded = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "httpx" in loaded
    assert not loaded & {"pygments", "rich"}


def test_entry_point_leaves_with_the_exit_code():
    command = [sys.executable, "-m", "agentcompass.cli.main", "run", "nonsense"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("Error: Missing argument 'HARNESS'")


@pytest.mark.parametrize(
    "arguments",
    [
        ["pool", "set", "docker", "--capacity", "99999999999"],
        ["pool", "set", "docker", "--open-qps", "1e300"],
        ["pool", "set", "docker", "--open-qps", "nan"],
        ["worker", "--workers", "99999"],
    ],
)
def test_a_number_that_no_machine_has_is_refused_by_the_name_of_its_flag(arguments, capsys):
    assert run_cli(arguments) == 2
    assert arguments[-2] in capsys.readouterr().err


def test_help_of_run_is_grouped(capsys):
    assert run_cli(["run", "--help"]) == 0
    text = capsys.readouterr().out
    groups = ["What to evaluate, and where:", "Model:", "Attempts, retries and limits:", "Results and reuse:"]
    assert [text.index(group) for group in groups] == sorted(text.index(group) for group in groups)


def test_no_arguments_show_the_help(capsys):
    assert run_cli([]) == 0
    assert "Usage: agentcompass" in capsys.readouterr().out


def test_version_is_shown(capsys):
    from agentcompass import __version__

    assert run_cli(["--version"]) == 0
    assert capsys.readouterr().out == f"agentcompass {__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["rnu"], "Error: No such command 'rnu'. Did you mean 'run'?"),
        (["run", "a", "b", "c", "--kk", "3"], "Error: No such option: --kk"),
        (["run", "a", "b", "c", "--k", "x"], "Error: Invalid value for '--k'"),
        (["run", "a", "b", "c", "d"], "Error: Got unexpected extra argument(s) (d)"),
        (["run", "nope", "none", "m", "--dry-run"], "Error: unknown benchmark 'nope'"),
        (["run", "a", "b", "c", "--config", "no.yaml"], "Error: configuration file "),
        (["run", "a", "b", "c", "--fail-under", "x"], "Error: --fail-under: "),
        (["run", "a", "b", "c", "--benchmark-params", "{"], "Error: --benchmark-params:1:2: "),
        (["attach", "l", "--progress", "fancy"], "Error: --progress: 'fancy' is not valid"),
        (["summary", "nowhere"], "Error: nowhere is not a directory"),
        (["config", "show", "only-one"], "Error: config show: give BENCHMARK HARNESS MODEL"),
    ],
)
def test_bad_usage_is_one_line_and_exit_code_2(arguments, message, capsys, tmp_path):
    assert run_cli(arguments) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.startswith(message)
    assert "Traceback" not in output.err
    assert list(tmp_path.iterdir()) == []


def test_unreachable_service_is_exit_code_3(broken, capsys):
    broken(ServiceUnreachableError("Temporal at x:1 cannot be reached"))
    assert run_cli(["list", "benchmarks"]) == 3
    assert capsys.readouterr().err == "Error: Temporal at x:1 cannot be reached\n"


def test_interruption_is_exit_code_130(broken):
    broken(KeyboardInterrupt())
    assert run_cli(["list", "benchmarks"]) == 130


def test_unexpected_error_is_short_and_its_report_holds_no_secret(broken, monkeypatch, capsys, tmp_path):
    monkeypatch.setenv("SOME_API_KEY", "canary-123456")
    broken(RuntimeError("token canary-123456 was refused"))
    assert run_cli(["list", "benchmarks"]) == 1
    message = capsys.readouterr().err
    assert message.startswith("Error: internal error (RuntimeError), details in ")
    assert message.count("\n") == 1
    report = Path(message.strip().split(" details in ")[1]).read_text()
    assert "RuntimeError: token *** was refused" in report
    assert "canary-123456" not in report


def test_traceback_is_shown_on_request_only(broken, monkeypatch, capsys):
    monkeypatch.setenv("AGENTCOMPASS_DEBUG", "1")
    broken(RuntimeError("x"))
    assert run_cli(["list", "benchmarks"]) == 1
    assert "Traceback" in capsys.readouterr().err


def test_components_are_listed(capsys, monkeypatch, registry):
    monkeypatch.setattr("agentcompass.plugins.registry.load_registry", lambda dirs=(): registry)
    assert run_cli(["list", "benchmarks", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[:1] == [{"id": "quiz", "description": "Questions"}]


def test_config_show_without_components_lists_the_files(capsys, tmp_path):
    (tmp_path / "agentcompass.yaml").write_text("execution: {max_retries: 4}\n")
    assert run_cli(["config", "show", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["execution.max_retries"] == {"value": 4, "origin": f"{tmp_path}/agentcompass.yaml:1"}


def test_server_status_without_a_server(capsys):
    assert run_cli(["server", "status", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["running"] is False
