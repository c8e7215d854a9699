"""``agentcompass pool``: limits of environment providers that hold over all launches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from ..help import GroupedCommand, GroupedGroup
from .gate_flags import AsJson

if TYPE_CHECKING:
    from ...contracts.pool import PoolSettings

MOST = 1_000_000
"""As in ``PoolChange``."""

pool_app = typer.Typer(
    cls=GroupedGroup,
    help="Limits of environment providers over all launches.",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


@pool_app.command("set", cls=GroupedCommand)
def set_limits(
    provider: Annotated[str, typer.Argument(metavar="PROVIDER", help="Environment id, such as docker.")],
    capacity: Annotated[
        int | None,
        typer.Option(
            "--capacity", metavar="N", min=0, max=MOST, help="Environments open at a time; 0 for no limit."
        ),
    ] = None,
    open_qps: Annotated[
        float | None,
        typer.Option(
            "--open-qps", metavar="Q", min=0, max=MOST, help="Environments opened a second; 0 for no limit."
        ),
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Limit how many environments of PROVIDER all launches together have open, and how fast they open them.

    A limit that is not named stays. It holds for attempts that begin from now on; those that have an
    environment keep it. Launches share the places evenly; `--provider-limit` of a launch holds beside it.
    """
    import asyncio
    import math

    from ...contracts.errors import UsageError
    from ...contracts.pool import PoolChange
    from .. import pools
    from .output import print_json

    if capacity is None and open_qps is None:
        raise UsageError("pool set: give --capacity, --open-qps or both; 0 switches a limit off")
    if open_qps is not None and not math.isfinite(open_qps):
        raise UsageError("--open-qps: not a number of environments a second")
    settings = asyncio.run(
        pools.set_limits(provider, PoolChange(capacity=capacity, open_per_second=open_qps))
    )
    if as_json:
        print_json(settings.model_dump() if settings else None)
    elif settings is None:
        print(f"{provider} has no limits; nothing to do.")
    else:
        print(f"{provider}: {_limits(settings)}")
    return 0


@pool_app.command("list", cls=GroupedCommand)
def list_pools(as_json: AsJson = False) -> int:
    """Show the limits that are set, and how many environments are open and waited for."""
    import asyncio

    from .. import pools
    from .output import print_json, print_table

    found = asyncio.run(pools.list_pools())
    if as_json:
        print_json([item.model_dump(mode="json") for item in found])
        return 0
    rows = []
    for item in found:
        status, limits = item.status, item.status.settings
        open_now = sum(status.held.values()) if limits.capacity else None
        counts = (
            ["" if open_now is None else str(open_now), str(sum(status.waiting.values()))]
            if item.served
            else ["", "no worker"]
        )
        rows.append(
            (
                status.provider,
                str(limits.capacity or "none"),
                f"{limits.open_per_second:g}" if limits.open_per_second else "none",
                *counts,
            )
        )
    print_table(("PROVIDER", "CAPACITY", "OPEN/S", "OPEN", "WAITING"), rows)
    return 0


def _limits(settings: PoolSettings) -> str:
    if settings.off:
        return "no limits"
    capacity = f"at most {settings.capacity} open" if settings.capacity else "any number open"
    rate = (
        f"at most {settings.open_per_second:g} opened a second"
        if settings.open_per_second
        else "opened at any rate"
    )
    return f"{capacity}, {rate}"
