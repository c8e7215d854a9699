"""``agentcompass list``: launches, and the components that are installed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from .gate_flags import AsJson

if TYPE_CHECKING:
    from ...plugins.registry import Registry


LAUNCHES = "launches"
SINGULARS = {
    LAUNCHES: "launch",
    "benchmarks": "benchmark",
    "harnesses": "harness",
    "environments": "environment",
    "recipes": "recipe",
    "analyzers": "analyzer",
}
"""What can be listed; for components, the name of their kind."""


def list_command(
    what: Annotated[
        str, typer.Argument(metavar=f"[{'|'.join(SINGULARS)}]", help="What to list; the singular will do.")
    ] = LAUNCHES,
    recipe_dir: Annotated[
        list[str] | None,
        typer.Option("--recipe-dir", metavar="DIR", help="Also load recipes from this trusted directory."),
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Also launches that were refused before they began.")
    ] = False,
    as_json: AsJson = False,
) -> int:
    """List launches, or the installed benchmarks, harnesses, environments, recipes or analyzers."""
    from .choices import one_of

    plural = next((name for name, singular in SINGULARS.items() if what == singular), what)
    chosen = one_of(plural, tuple(SINGULARS), "list")
    if chosen == LAUNCHES:
        return _list_launches(as_json, everything=everything)
    from ...plugins.registry import load_registry

    return _list_components(load_registry(recipe_dir or ()), SINGULARS[chosen], as_json)


def _list_launches(as_json: bool, *, everything: bool) -> int:
    import asyncio
    import sys

    from .. import launcher
    from .output import print_json, print_table

    found = asyncio.run(launcher.list_launches())
    launches = [item for item in found if everything or item.status != "refused"]
    if len(launches) < len(found):
        hidden = len(found) - len(launches)
        print(f"{hidden} refused launches are not shown; --all shows them.", file=sys.stderr)
    if as_json:
        print_json([item.model_dump(mode="json") for item in launches])
        return 0
    rows = [(item.launch_id, item.status, item.started_at, item.name, item.schedule) for item in launches]
    print_table(("LAUNCH", "STATUS", "STARTED", "NAME", "SCHEDULE"), rows)
    return 0


def _list_components(registry: Registry, kind: str, as_json: bool) -> int:
    from ...contracts.errors import PluginError
    from ...plugins.registry import ComponentKind
    from .output import print_json, print_table, warn

    found: list[tuple[str, str]] = []
    for item in registry.registrations(ComponentKind(kind)):
        try:
            description = registry.get(item.kind, item.id).description
        except PluginError as error:  # one that cannot be imported is still installed
            description = f"(cannot be used: {error})"
        found.append((item.id, description))
    for problem in registry.broken:
        warn(f"not loaded: {problem}")
    if as_json:
        print_json([{"id": name, "description": description} for name, description in found])
    else:
        print_table(("ID", "DESCRIPTION"), found)
    return 0
