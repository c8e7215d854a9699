"""``agentcompass server``: the Temporal server that AgentCompass runs when no cluster is configured."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from ..help import GroupedCommand, GroupedGroup
from .gate_flags import AsJson

if TYPE_CHECKING:
    from pydantic import JsonValue

    from ..embedded_server import EmbeddedServer, ServerStatus

server_app = typer.Typer(
    cls=GroupedGroup,
    help="Start, stop and inspect the local Temporal server.",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


@server_app.command("start", cls=GroupedCommand)
def start(as_json: AsJson = False) -> int:
    """Start the local server if it does not run; commands that need it do this by themselves."""
    import asyncio

    server = _server()
    info = asyncio.run(server.ensure())
    if not as_json:
        print("Started." if info.started else "It was running already.")
    return _print_status(server, as_json)


@server_app.command("stop", cls=GroupedCommand)
def stop(as_json: AsJson = False) -> int:
    """Stop the local server. Running launches are kept and go on after the next start."""
    import asyncio

    from .output import print_json

    stopped = asyncio.run(_server().stop())
    if as_json:
        print_json({"stopped": stopped})
    else:
        print("Stopped." if stopped else "No server was running.")
    return 0


@server_app.command("status", cls=GroupedCommand)
def status(as_json: AsJson = False) -> int:
    """Show address, web UI and database of the local server."""
    return _print_status(_server(), as_json)


def _server() -> EmbeddedServer:
    from ..embedded_server import EmbeddedServer
    from ..home import home_folder

    return EmbeddedServer(home_folder())


def _print_status(server: EmbeddedServer, as_json: bool) -> int:
    from .output import print_json

    facts = _facts(server.status())
    if as_json:
        print_json(facts)
        return 0
    for name, value in facts.items():
        if value is not None:
            print(f"{name}: {value}")
    return 0


def _facts(status: ServerStatus) -> dict[str, JsonValue]:
    return {
        "running": status.running,
        "pid": status.pid,
        "address": status.address,
        "ui_address": status.ui_address,
        "version": status.version,
        "uptime_seconds": round(status.uptime.total_seconds()) if status.uptime else None,
        "database": str(status.db_path),
        "database_bytes": status.db_bytes,
    }
