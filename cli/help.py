"""Help pages in groups, and the rules for ``--reuse`` and for empty values.

Typer's own grouped help loads Rich's Markdown machinery, which takes longer than everything else
that ``--help`` does together; these pages group by the same ``rich_help_panel`` without it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from typer.core import TyperCommand, TyperGroup

ARGUMENTS = "Arguments"
OPTIONS = "Options"
COMMANDS = "Commands"
REUSE = "--reuse"
_MAY_BE_EMPTY = frozenset({"reason"})
"""Parameters of any command whose text may be empty."""


class GroupedCommand(TyperCommand):
    """A command whose options are listed by group, and that takes no empty value for none."""

    checks_options = True
    """False for a command that checks its options itself, some of which may be empty."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Refuse empty values: nearly always they are shell variables that are not set.

        ``cancel LAUNCH --request "$R"`` would end the whole launch. Raises ``UsageError``.
        """
        given, _, _ = self.make_parser(ctx).parse_args(args=list(args))
        for param in self.get_params(ctx):
            positional = param.param_type_name == "argument"
            if param.name in _MAY_BE_EMPTY or not (positional or self.checks_options):
                continue
            value = given.get(param.name)
            texts = value if isinstance(value, list | tuple) else [value]
            if any(isinstance(text, str) and not text.strip() for text in texts):
                from ..contracts.errors import UsageError

                name = (param.metavar or str(param.name).upper()) if positional else max(param.opts, key=len)
                raise UsageError(f"{name}: the value is empty")
        return super().parse_args(ctx, args)

    # Typer does not publish the types of context and formatter.
    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write one section for each ``rich_help_panel``, in order of appearance."""
        _write_options(self.get_params(ctx), ctx, formatter)


class GroupedGroup(TyperGroup):
    """A group whose commands and options are listed by group."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Commands first: they are what one looks for here."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for name in self.list_commands(ctx):
            command = self.get_command(ctx, name)
            if command is not None and not command.hidden:
                panel = getattr(command, "rich_help_panel", None) or COMMANDS
                sections.setdefault(panel, []).append((name, command.get_short_help_str(limit=100)))
        _write_sections(sections, formatter)
        _write_options(self.get_params(ctx), ctx, formatter)


class ReuseCommand(GroupedCommand):
    """A command with ``--reuse [RUN_ID]``, whose value may be left out."""

    checks_options = False

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Give a bare ``--reuse`` its value before parsing."""

        def leftover(candidate: list[str]) -> list[str]:
            _, rest, _ = self.make_parser(ctx).parse_args(args=list(candidate))
            return list(rest)

        return super().parse_args(ctx, complete_reuse(args, leftover))


def complete_reuse(args: list[str], leftover: Callable[[list[str]], list[str]]) -> list[str]:
    """``args`` with a bare ``--reuse`` turned into ``--reuse=latest`` or ``--reuse=RUN_ID``.

    The word after it is a run id only when the command would otherwise have a positional argument
    too many (``leftover`` returns those): a benchmark's name is never swallowed.
    """
    options = args[: args.index("--")] if "--" in args else args
    if REUSE not in options:
        return args
    at = options.index(REUSE)
    before, after = args[:at], args[at + 1 :]
    bare = [*before, f"{REUSE}=latest", *after]
    if after and not after[0].startswith("-") and leftover(bare):
        return [*before, f"{REUSE}={after[0]}", *after[1:]]
    return bare


def _write_options(params: list[Any], ctx: Any, formatter: Any) -> None:
    sections: dict[str, list[tuple[str, str]]] = {}
    for param in params:
        record = param.get_help_record(ctx)
        if record is not None:
            fallback = ARGUMENTS if param.param_type_name == "argument" else OPTIONS
            panel = getattr(param, "rich_help_panel", None) or fallback
            sections.setdefault(panel, []).append(record)
    # What every command has (--help, …) goes last.
    for panel in [*(name for name in sections if name != OPTIONS), OPTIONS]:
        if panel in sections:
            _write_sections({panel: sections[panel]}, formatter)


def _write_sections(sections: dict[str, list[tuple[str, str]]], formatter: Any) -> None:
    for panel, rows in sections.items():
        with formatter.section(panel):
            formatter.write_dl(rows, col_max=34)
