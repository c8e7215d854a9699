"""Where a configuration value comes from, and one layer of configuration."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from pydantic import JsonValue

Path = tuple[str | int, ...]
"""The way to a value: keys of maps, indexes of lists."""

Tree = dict[str, JsonValue]


def dotted(path: Path) -> str:
    """``("a", "b", 0)`` as ``a.b[0]``."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
            continue
        # A key may hold anything; a message stays one line.
        name = part if part.isprintable() and part else repr(part)
        text += f".{name}" if text else name
    return text


@dataclass(frozen=True)
class Origin:
    """The source of one value: a file and line, a flag, an SDK argument, or a default."""

    source: str
    line: int | None = None
    path: Path = ()
    """How the source itself calls the value; empty when its name says it all."""

    def __str__(self) -> str:
        return self.source if self.line is None else f"{self.source}:{self.line}"

    def describe(self) -> str:
        """For an error message: ``file:line: dotted.path``, or the flag's name."""
        return f"{self}: {dotted(self.path)}" if self.path else str(self)


DEFAULT = Origin("default")


@dataclass
class Layer:
    """Values of one source, and their origins by path; a value without one has its parent's."""

    name: str
    data: Tree = field(default_factory=dict)
    places: dict[Path, Origin] = field(default_factory=dict)

    def origin(self, path: Path) -> Origin:
        """The origin of the value at ``path``."""
        return find_origin(self.places, path) or Origin(self.name)


def find_origin(places: Mapping[Path, Origin], path: Path) -> Origin | None:
    """The entry for ``path`` or for the nearest value above it."""
    for length in range(len(path), -1, -1):
        found = places.get(path[:length])
        if found is not None:
            return found
    return None


def walk(value: JsonValue, path: Path = ()) -> Iterator[tuple[Path, JsonValue]]:
    """Every value below and including ``value`` with its path, parents first."""
    yield path, value
    if isinstance(value, dict):
        for key, item in value.items():
            yield from walk(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from walk(item, (*path, index))
