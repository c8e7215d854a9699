"""The entry point of ``agentcompass``: commands, exit codes, and the way out.

Exit codes: 0 completed; 1 finished but not valid, or an internal error; 2 bad usage or
configuration; 3 a needed service is unreachable; 130 interrupted.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Annotated, NoReturn

import typer

from .commands.analysis import analysis
from .commands.codec_server import codec_server
from .commands.compare import compare
from .commands.config import config_app
from .commands.doctor import doctor
from .commands.env import env_app
from .commands.export import export
from .commands.launch import launch
from .commands.launches import attach, pause, resume, status
from .commands.listing import list_command
from .commands.operate import cancel, retry, set_command
from .commands.pool import pool_app
from .commands.run import run
from .commands.schedule import schedule_app
from .commands.server import server_app
from .commands.setup import setup
from .commands.summary import summary
from .commands.tasks import end, logs
from .commands.view import view
from .commands.worker import worker
from .help import GroupedCommand, GroupedGroup, ReuseCommand

EVALUATE = "Evaluate"
LAUNCHES = "Launches"
INSTALLATION = "Configuration and services"

EXIT_INTERNAL = 1
EXIT_INTERRUPTED = 130

DEBUG_VARIABLE = "AGENTCOMPASS_DEBUG"

app = typer.Typer(
    name="agentcompass",
    cls=GroupedGroup,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from .. import __version__

        print(f"agentcompass {__version__}")
        raise typer.Exit()


@app.callback()
def root(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit."),
    ] = False,
) -> None:
    """Evaluate LLM agents on benchmarks. Nothing that finished is ever lost or done twice.

    Begin with: agentcompass run BENCHMARK HARNESS MODEL --model-base-url URL
    """


app.command("run", cls=ReuseCommand, rich_help_panel=EVALUATE)(run)
app.command("analysis", cls=GroupedCommand, rich_help_panel=EVALUATE)(analysis)
app.command("export", cls=GroupedCommand, rich_help_panel=EVALUATE)(export)
app.command("launch", cls=ReuseCommand, rich_help_panel=EVALUATE)(launch)
app.command("summary", cls=GroupedCommand, rich_help_panel=EVALUATE)(summary)
app.command("compare", cls=GroupedCommand, rich_help_panel=EVALUATE)(compare)
app.command("view", cls=GroupedCommand, rich_help_panel=EVALUATE)(view)
app.command("list", cls=GroupedCommand, rich_help_panel=LAUNCHES)(list_command)
app.command("status", cls=GroupedCommand, rich_help_panel=LAUNCHES)(status)
app.command("attach", cls=GroupedCommand, rich_help_panel=LAUNCHES)(attach)
app.command("cancel", cls=GroupedCommand, rich_help_panel=LAUNCHES)(cancel)
app.command("pause", cls=GroupedCommand, rich_help_panel=LAUNCHES)(pause)
app.command("resume", cls=GroupedCommand, rich_help_panel=LAUNCHES)(resume)
app.command("set", cls=GroupedCommand, rich_help_panel=LAUNCHES)(set_command)
app.command("retry", cls=GroupedCommand, rich_help_panel=LAUNCHES)(retry)
app.add_typer(schedule_app, name="schedule", rich_help_panel=LAUNCHES)
app.add_typer(env_app, name="env", rich_help_panel=LAUNCHES)
app.add_typer(pool_app, name="pool", rich_help_panel=LAUNCHES)
app.command("logs", cls=GroupedCommand, rich_help_panel=LAUNCHES)(logs)
app.command("end", cls=GroupedCommand, rich_help_panel=LAUNCHES)(end)
app.add_typer(config_app, name="config", rich_help_panel=INSTALLATION)
app.add_typer(server_app, name="server", rich_help_panel=INSTALLATION)
app.command("doctor", cls=GroupedCommand, rich_help_panel=INSTALLATION)(doctor)
app.command("setup", cls=GroupedCommand, rich_help_panel=INSTALLATION)(setup)
app.command("worker", cls=GroupedCommand, rich_help_panel=INSTALLATION)(worker)
app.command("codec-server", cls=GroupedCommand, rich_help_panel=INSTALLATION)(codec_server)


def run_cli(arguments: Sequence[str]) -> int:
    """Carry out one command line; returns its exit code and never raises."""
    try:
        code = app(list(arguments) or ["--help"], prog_name="agentcompass", standalone_mode=False)
    except typer.TyperException as error:
        _complain(error.format_message(), getattr(error, "ctx", None))
        return error.exit_code
    except (KeyboardInterrupt, typer.Abort):
        return EXIT_INTERRUPTED
    except SystemExit as leave:  # shell completion, and a pipe that was closed
        return leave.code if isinstance(leave.code, int) else EXIT_INTERNAL if leave.code else 0
    except Exception as error:  # the last place before the user: every error gets its line and code
        return _report(error)
    return code if isinstance(code, int) else 0


def _report(error: Exception) -> int:
    """Tell the user what went wrong; returns the exit code."""
    from ..contracts.errors import AgentCompassError

    if os.environ.get(DEBUG_VARIABLE) == "1":
        import traceback

        traceback.print_exception(error)
    if isinstance(error, AgentCompassError):
        _complain(str(error))
        return error.exit_code
    from .crash_report import write_crash_report

    file = write_crash_report(error)
    where = f"details in {file}" if file else f"set {DEBUG_VARIABLE}=1 for details"
    _complain(f"internal error ({type(error).__name__}), {where}")
    return EXIT_INTERNAL


def _complain(message: str, context: object = None) -> None:
    print(f"Error: {message}", file=sys.stderr)
    path = getattr(context, "command_path", "")
    if path:
        print(f"See `{path} --help`.", file=sys.stderr)


def leave(code: int) -> NoReturn:
    """End the process at once.

    The Temporal SDK's threads can abort the interpreter while it shuts down, after all work is
    done; leaving without a shutdown keeps the exit code.
    """
    import logging

    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):  # whoever read it has gone: nothing is left to tell it
            continue
    os._exit(code)


def main() -> NoReturn:
    """Entry point of the ``agentcompass`` script."""
    _enter(sys.argv[1:])


def worker_main() -> NoReturn:
    """Entry point of the ``agentcompass-worker`` script: ``agentcompass worker`` by another name."""
    _enter(["worker", *sys.argv[1:]])


def _enter(arguments: Sequence[str]) -> NoReturn:
    # httpx has a command line of its own, for which it imports rich, pygments and click: a fifth of the start
    # of every command and worker. It copes without.
    sys.modules.setdefault("httpx._main", None)  # type: ignore[arg-type]
    leave(run_cli(arguments))


if __name__ == "__main__":
    main()
