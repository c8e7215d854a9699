"""Which files of a repository hold the rows of a split: as its card says, else by their names."""

from __future__ import annotations

import re
from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Any

from ....contracts.errors import DatasetError
from ...yaml_text import YamlTextError, read_yaml

FORMATS = (".parquet", ".jsonl", ".jsonl.gz", ".json")
"""What can be read, the preferred ones first."""
_CARD = re.compile(r"\A---\s*\n(.*?)\n---\s*$", re.DOTALL | re.MULTILINE)
_SHOWN = 10


def files_of_split(
    dataset: str, paths: Iterable[str], card: str, *, config: str | None, split: str, given: list[str] | None
) -> list[str]:
    """Paths in order. ``given`` are patterns that the user wrote; ``card`` is the repository's README.md.

    Raises ``DatasetError`` that lists what there is.
    """
    readable = sorted(path for path in paths if path.endswith(FORMATS))
    patterns = given or _patterns(dataset, card, config, split)
    if patterns is not None:
        found = [path for path in readable if any(_matches(path, pattern) for pattern in patterns)]
        what = ", ".join(patterns)
    else:
        found, what = _by_name(readable, split), f"split {split!r}"
    if not found:
        shown = ", ".join(readable[:_SHOWN]) or "none that can be read"
        raise DatasetError(
            f"data set {dataset!r} has no file for {what}; name them as 'files'. Its data files: {shown}"
        )
    return found


def _patterns(dataset: str, card: str, config: str | None, split: str) -> list[str] | None:
    """What the card says; ``None`` when it says nothing of files."""
    configs = _configs(card)
    if not configs:
        if config is not None:
            raise DatasetError(f"data set {dataset!r} has no configurations, so none is called {config!r}")
        return None
    names = [str(item.get("config_name")) for item in configs]
    wanted = config or _default(configs)
    if wanted not in names:
        listed = ", ".join(names[:_SHOWN])
        which = f"no configuration {config!r}" if config else "several configurations"
        raise DatasetError(f"data set {dataset!r} has {which}; name one as 'config': {listed}")
    files = configs[names.index(wanted)].get("data_files")
    entries = files if isinstance(files, list) else [files]
    splits: dict[str, list[str]] = {}
    for entry in entries:
        if isinstance(entry, dict):
            splits.setdefault(str(entry.get("split")), []).extend(_texts(entry.get("path")))
    if not splits:
        return None
    if split not in splits:
        raise DatasetError(f"data set {dataset!r} has no split {split!r}: {', '.join(sorted(splits))}")
    return splits[split]


def _configs(card: str) -> list[dict[str, Any]]:
    """Those in the card's header. One that cannot be read says nothing."""
    header = _CARD.match(card)
    try:
        value = read_yaml(header[1]) if header else None
    except YamlTextError:
        return []
    configs = value.get("configs") if isinstance(value, dict) else None
    return [item for item in configs if isinstance(item, dict)] if isinstance(configs, list) else []


def _default(configs: list[dict[str, Any]]) -> str:
    marked = [item for item in configs if item.get("default") is True]
    [chosen, *_] = marked or (configs if len(configs) == 1 else [{"config_name": "default"}])
    return str(chosen.get("config_name"))


def _texts(value: object) -> list[str]:
    return [item for item in (value if isinstance(value, list) else [value]) if isinstance(item, str)]


def _matches(path: str, pattern: str) -> bool:
    return fnmatchcase(path, pattern.removeprefix("./").replace("**/", "*"))


def _by_name(readable: list[str], split: str) -> list[str]:
    """Files of the preferred format with the split as a word of their path, as ``data/test-00000-of-00001.parquet``."""
    word = re.compile(rf"(^|[/._-]){re.escape(split)}([/._-]|$)")
    named = [path for path in readable if word.search(path)]
    for ending in FORMATS:
        if of_format := [path for path in named if path.endswith(ending)]:
            return of_format
    return []
