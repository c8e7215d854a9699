"""Writes ``docs/cli.md`` from the commands themselves: ``python docs/generate_cli.py``.

``tests/unit/test_docs.py`` fails when the page is not what this script would write.
"""

from __future__ import annotations

import enum
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer.main

from agentcompass.cli.main import app

PAGE = Path(__file__).parent / "cli.md"

HEAD = """\
# Command line

This page is written by `python docs/generate_cli.py`; do not edit it by hand.

A value that is a JSON object goes in single quotes: `--benchmark-params '{"limit": 5}'`. So does a
variable that AgentCompass is to read by itself: `--model-api-key '${KEY}'`. In double quotes the shell
puts the key itself on the command line, and a variable that is not set is an empty value, which is refused.

Results go to standard output, progress and messages to standard error.

## Exit codes

| code | meaning |
| ---: | --- |
| 0 | The run completed. A low score is no failure; make it one with `--fail-under`. |
| 1 | The run is over but not valid: a task ended with a FATAL issue, or the run failed or timed out; or it is below a gate (`--fail-under`, `--max-unevaluated`), or worse than the run before it (`--fail-on-regression`). Also an internal error. |
| 2 | Bad usage, configuration or data: nothing was begun. One message says what to change. |
| 3 | A service that is needed cannot be reached: Temporal, or the model endpoint. |
| 130 | Interrupted or cancelled. |

`status`, `list` and the other commands that only look or ask return 0 when they could do so,
whatever the state of the launch; `status --exit-code` returns the launch's own. With `AGENTCOMPASS_DEBUG=1` an error also prints its traceback.
"""


def render() -> str:
    """The whole page."""
    root: Any = typer.main.get_command(app)
    commands = [*_commands("agentcompass", root)]
    index = [
        f"| [`{path}`](#{path.replace(' ', '-')}) | {_first_line(command)} |" for path, command in commands
    ]
    overview = "\n".join(["## Commands", "", "| command | |", "| --- | --- |", *index, ""])
    options = "\n".join(["Options of `agentcompass` itself:", "", *_table(root)])
    return "\n".join([HEAD, overview, options, *(_section(path, command) for path, command in commands)])


def _commands(path: str, command: Any) -> Iterator[tuple[str, Any]]:
    """Every command below ``command`` that help lists; Typer does not publish their types."""
    for name, child in command.commands.items():
        if child.hidden:
            continue
        if getattr(child, "commands", None):
            yield from _commands(f"{path} {name}", child)
        else:
            yield f"{path} {name}", child


def _section(path: str, command: Any) -> str:
    arguments = [item for item in command.params if item.param_type_name == "argument"]
    words = [item.metavar or item.name.upper() for item in arguments]
    usage = " ".join(
        [path, *(word if item.required else f"[{word}]" for word, item in zip(words, arguments, strict=True))]
    )
    lines = [f"## {path}", "", f"`{usage} [OPTIONS]`", "", inspect.cleandoc(command.help), ""]
    if arguments:
        rows = [f"| `{word}` | {_help(item)} |" for word, item in zip(words, arguments, strict=True)]
        lines += ["| argument | |", "| --- | --- |", *rows, ""]
    return "\n".join([*lines, *_table(command)])


def _table(command: Any) -> list[str]:
    """The options of a command, those of one help panel together."""
    panels: dict[str, list[str]] = {}
    for item in command.params:
        if item.param_type_name == "option" and not item.hidden:
            panel = getattr(item, "rich_help_panel", None) or "Options"
            panels.setdefault(panel, []).append(f"| {_flag(item)} | {_help(item)} |")
    lines: list[str] = []
    for panel, rows in panels.items():
        lines += [f"| {panel} | |", "| --- | --- |", *rows, ""]
    return lines


def _flag(item: Any) -> str:
    metavar = "" if item.is_flag or not item.metavar else item.metavar
    value = metavar if metavar.startswith("[=") else f" {metavar}" if metavar else ""
    names = [f"`{name}{value}`" for name in [*item.opts, *item.secondary_opts]]
    return ", ".join(names).replace("|", "\\|")


def _help(item: Any) -> str:
    """The help text, with valid values and default where they are not in it."""
    kind = item.type_descriptor.annotation
    is_enum = isinstance(kind, type) and issubclass(kind, enum.Enum)
    valid = f" One of: {', '.join(member.value for member in kind)}." if is_enum else ""
    default = getattr(item.default, "value", item.default)
    known = isinstance(default, str | int | float) and not isinstance(default, bool) and default != ""
    text = f"{item.help or ''}{valid}{f' [default: {default}]' if known else ''}"
    return text.replace("|", "\\|").replace("  [default", " [default")


def _first_line(command: Any) -> str:
    return str(inspect.cleandoc(command.help).splitlines()[0])


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
