"""``agentcompass env``: the environments that exist, whose they are, and removing those that were left."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from ..help import GroupedCommand, GroupedGroup
from .gate_flags import AsJson

if TYPE_CHECKING:
    from ..environments import Environments, ListedEnvironment, Released

env_app = typer.Typer(
    cls=GroupedGroup,
    help="List and remove environments of attempts.",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

LaunchOption = Annotated[
    str, typer.Option("--launch", metavar="LAUNCH", help="Those of this launch; see `agentcompass list`.")
]
ProviderOption = Annotated[
    str, typer.Option("--env", metavar="PROVIDER", help="Those of this provider, such as host_process.")
]


@env_app.command("list", cls=GroupedCommand)
def list_environments(launch: LaunchOption = "", env: ProviderOption = "", as_json: AsJson = False) -> int:
    """List environments with their owner, age and state.

    live: its attempt is not over · closed: it is, and the environment is about to be removed ·
    kept: by --keep-environment · expired: a day without a worker · unknown: of another server.
    Environments that live on another machine are listed there.
    """
    import asyncio

    from .. import environments
    from .output import print_json, print_table

    found = asyncio.run(environments.look(launch=launch, provider=env))
    _warn_of(found)
    if as_json:
        print_json([item.model_dump(mode="json") for item in found.listed])
        return 0
    header = ("ENVIRONMENT", "PROVIDER", "STATE", "AGE", "LAUNCH", "TASK", "ATTEMPT")
    print_table(header, [_row(item) for item in found.listed])
    for item in found.listed:
        if item.error:
            print(f"{item.id} could not be removed: {item.error}")
    return 0


@env_app.command("release", cls=GroupedCommand)
def release_environments(
    ids: Annotated[
        list[str] | None,
        typer.Argument(metavar="[ID]...", help="Ids, as `agentcompass env list` shows them."),
    ] = None,
    all_closed: Annotated[
        bool, typer.Option("--all-closed", help="All whose attempt is over, but for those that were kept.")
    ] = False,
    launch: LaunchOption = "",
    env: ProviderOption = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be removed.")] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Also one that an attempt uses; the attempt will fail.")
    ] = False,
    as_json: AsJson = False,
) -> int:
    """End everything in environments and remove them.

    Workers do this by themselves for attempts that are over; those kept by --keep-environment stay until
    they are named, or their launch is. Exit code 1 when one could not be removed.
    """
    import asyncio

    from ...contracts.errors import UsageError
    from .. import environments
    from .output import print_json

    if sum(map(bool, (ids, all_closed, launch))) != 1:
        raise UsageError(
            "env release: give ids, --all-closed or --launch; `agentcompass env list` shows them"
        )

    async def act() -> tuple[Environments, list[Released]]:
        found = await environments.look(launch=launch, provider=env)
        chosen = environments.choose(found, ids or [], all_closed=all_closed, launch=launch, force=force)
        if dry_run:
            return found, [environments.Released(item) for item in chosen]
        return found, await environments.release_all(found, chosen)

    found, done = asyncio.run(act())
    _warn_of(found)
    failed = [item for item in done if item.problem]
    if as_json:
        print_json(
            {
                "dry_run": dry_run,
                "released": [item.environment.id for item in done if not item.problem],
                "failed": {item.environment.id: item.problem for item in failed},
            }
        )
    else:
        _tell(found, done, ids or [], dry_run=dry_run)
    return 1 if failed else 0


def _tell(found: Environments, done: list[Released], ids: list[str], *, dry_run: bool) -> None:
    for name in ids:
        if name not in found.sightings:
            print(f"{name}: there is no such environment any more; nothing to do.")
    for item in done:
        owner = _owner(item.environment)
        if item.problem:
            print(f"{item.environment.id}{owner}: not removed: {item.problem}")
        else:
            print(f"{item.environment.id}{owner}: {'would be removed' if dry_run else 'removed'}")
    if not done and not ids:
        print("No environment to remove; nothing to do.")


def _row(item: ListedEnvironment) -> tuple[str, ...]:
    attempt = "" if item.attempt is None else f"a{item.attempt} e{item.execution}"
    return item.id, item.provider, item.state.value, _age(item.age_seconds), item.launch, item.task, attempt


def _owner(item: ListedEnvironment) -> str:
    return f" ({item.state.value}, {item.launch} {item.task} a{item.attempt})" if item.launch else ""


def _age(seconds: float | None) -> str:
    """``42s``, ``12m``, ``5h`` or ``3d``."""
    if seconds is None:
        return ""
    for unit, length in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds >= 2 * length:
            return f"{seconds // length:.0f}{unit}"
    return f"{seconds:.0f}s"


def _warn_of(found: Environments) -> None:
    from .output import warn

    for problem in found.problems:
        warn(f"not listed: {problem}")
