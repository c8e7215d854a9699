"""``agentcompass config show``: the effective configuration and where it comes from."""

from __future__ import annotations

import dataclasses

import typer

from ..flags import takes_flags
from ..help import GroupedGroup, ReuseCommand
from .gate_flags import AsJson
from .run_flags import RunFlags

COMPONENT_ARGUMENTS = frozenset({"benchmark", "harness", "model"})

config_app = typer.Typer(
    cls=GroupedGroup,
    help="Look at the configuration.",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


@config_app.callback()
def config() -> None:
    """Look at the configuration."""


@config_app.command("show", cls=ReuseCommand)
@takes_flags(RunFlags, optional=COMPONENT_ARGUMENTS)
def show(flags: RunFlags, as_json: AsJson = False) -> int:
    """Print every setting with its value and where the value comes from, secrets masked.

    With the arguments of `agentcompass run` it shows what that run would get; without any it shows
    the configuration files that apply, merged.
    """
    from .output import print_values, warn

    if _names_components(flags):
        from ..config import effective_values, leave_literal, resolve_run

        resolved = resolve_run(flags.arguments(), store_literal=leave_literal)
        for warning in resolved.warnings:
            warn(warning)
        values = effective_values(resolved)
    else:
        from ..config import file_values

        values = file_values(flags.config or ())
    print_values(values, as_json=as_json)
    return 0


def _names_components(flags: RunFlags) -> bool:
    """True when all of BENCHMARK HARNESS MODEL are given, false when nothing but ``--config`` is."""
    from ...contracts.errors import UsageError

    given = {
        item.name for item in dataclasses.fields(flags) if getattr(flags, item.name) not in (None, "", [])
    }
    if COMPONENT_ARGUMENTS <= given:
        return True
    if given <= {"config"}:
        return False
    raise UsageError(
        "config show: give BENCHMARK HARNESS MODEL with these arguments, as for `agentcompass run`"
    )
