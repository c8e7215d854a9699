"""Reading YAML and JSON files, with the line of every value.

YAML is read by walking its node tree instead of by a stock loader: that gives the lines, and
refuses what a loader passes over in silence (repeated keys, keys that are no text, tags).
Dates stay text, because JSON has none.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from pathlib import Path as FilePath
from typing import Any, NoReturn

import yaml
from pydantic import JsonValue

from ...contracts.errors import ConfigurationError
from .places import Path, Tree, dotted

MAX_DEPTH = 64
MAX_BYTES = 4 * 1024 * 1024
MAX_VALUES = 200_000
"""A limit on aliases that multiply; a configuration never has as many values."""

_PLAIN_TAGS = {f"tag:yaml.org,2002:{name}": name for name in ("str", "null", "bool", "int", "float")}
_TEXT_TAGS = ("tag:yaml.org,2002:timestamp", "tag:yaml.org,2002:value")


@dataclass
class Document:
    """The content of a file and the line (from 1) of each of its values."""

    file: str
    data: Tree
    lines: dict[Path, int] = field(default_factory=dict)


def read_document(path: FilePath) -> Document:
    """Read a ``.json`` file as JSON, any other as YAML; an empty file is an empty map.

    Raises:
        ConfigurationError: unreadable or malformed; one line with file, line and column.
    """
    if path.suffix in (".jsonl", ".ndjson"):
        raise ConfigurationError(
            f"{path}: a file with a record on each line is no configuration and no launch file, "
            "which are one YAML (.yaml) or JSON (.json) document; is it the data of a benchmark?"
        )
    try:
        if path.stat().st_size > MAX_BYTES:
            raise ConfigurationError(f"{path}: larger than {MAX_BYTES} bytes, not a configuration file")
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise ConfigurationError(
            f"cannot read configuration file {path}: {error.strerror or error}"
        ) from None
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{path}: not UTF-8 text (byte {error.start})") from None
    return parse_json(text, str(path)) if path.suffix == ".json" else parse_yaml(text, str(path))


def parse_json(text: str, source: str) -> Document:
    """Parse a JSON object. Raises ``ConfigurationError``."""
    if not text.strip():
        return Document(source, {})
    return Document(source, require_map(parse_json_value(text, source), source))


def parse_json_value(text: str, source: str) -> JsonValue:
    """Parse JSON strictly: no repeated keys, no NaN. Raises ``ConfigurationError``."""

    def no_repeats(pairs: list[tuple[str, JsonValue]]) -> Tree:
        result: Tree = {}
        for key, value in pairs:
            if key in result:
                raise ConfigurationError(f"{source}: key {key!r} is given twice")
            result[key] = value
        return result

    def no_constant(name: str) -> NoReturn:
        raise ConfigurationError(f"{source}: {name} is not allowed in JSON")

    try:
        value: JsonValue = json.loads(text, object_pairs_hook=no_repeats, parse_constant=no_constant)
    except json.JSONDecodeError as error:
        raise ConfigurationError(
            f"{source}:{error.lineno}:{error.colno}: {error.msg}; this is not valid JSON"
        ) from None
    except RecursionError:
        raise ConfigurationError(f"{source}: nested too deeply") from None
    except ValueError as error:  # a number with thousands of digits
        raise ConfigurationError(f"{source}: {error}") from None
    return value


def require_map(value: JsonValue, source: str) -> Tree:
    """``value`` when it is a map. Raises ``ConfigurationError``."""
    if not isinstance(value, dict):
        kind = {list: "a list", str: "text", type(None): "null"}.get(type(value), "a single value")
        raise ConfigurationError(f"{source}: must hold a map of keys and values, not {kind}")
    return value


def parse_yaml(text: str, source: str) -> Document:
    """Parse one YAML document that is a map. Raises ``ConfigurationError``."""
    try:
        loader = yaml.SafeLoader(text)
        node = loader.get_single_node()
        if node is None:
            return Document(source, {})
        reader = _NodeReader(source, loader)
        data = reader.read(node, ())
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"{source}:{mark.line + 1}:{mark.column + 1}" if mark else source
        problem = " ".join((error.problem or error.context or "malformed YAML").split())
        raise ConfigurationError(f"{place}: {problem}") from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        column = error.position - (text.rfind("\n", 0, error.position) + 1) + 1
        raise ConfigurationError(f"{source}:{line}:{column}: a character that YAML does not allow") from None
    except RecursionError:
        raise ConfigurationError(f"{source}: nested too deeply") from None
    except (ValueError, OverflowError):  # PyYAML's scanner lets them out of broken escapes
        raise ConfigurationError(f"{source}: malformed YAML escape sequence") from None
    return Document(source, require_map(data, source), reader.lines)


class _NodeReader:
    """Turns YAML nodes into JSON values and notes their lines."""

    def __init__(self, source: str, loader: yaml.SafeLoader) -> None:
        self._source = source
        self._loader = loader
        self._open: set[int] = set()
        self._count = 0
        self.lines: dict[Path, int] = {}

    def read(self, node: yaml.Node, path: Path) -> JsonValue:
        self._count += 1
        if id(node) in self._open:
            self._fail(node, path, "refers to itself")
        if len(path) > MAX_DEPTH or self._count > MAX_VALUES:
            self._fail(node, path, "nested too deeply or too large")
        self.lines.setdefault(path, node.start_mark.line + 1)
        self._open.add(id(node))
        try:
            return self._value(node, path)
        finally:
            self._open.discard(id(node))

    def _value(self, node: yaml.Node, path: Path) -> JsonValue:
        if isinstance(node, yaml.MappingNode) and node.tag == "tag:yaml.org,2002:map":
            return self._mapping(node, path)
        if isinstance(node, yaml.SequenceNode) and node.tag == "tag:yaml.org,2002:seq":
            return [self.read(item, (*path, index)) for index, item in enumerate(node.value)]
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node, path)
        self._fail(node, path, f"the tag {node.tag} is not allowed")

    def _mapping(self, node: yaml.MappingNode, path: Path) -> Tree:
        own = [key for key, _ in node.value if key.tag != "tag:yaml.org,2002:merge"]
        self._check_keys(own, path)
        self._loader.flatten_mapping(node)
        result: Tree = {}
        # After flattening, merged pairs come first, so that the map's own keys win.
        for key, value in node.value:
            place = (*path, key.value)
            result[key.value] = self.read(value, place)
            self.lines[place] = key.start_mark.line + 1
        return result

    def _check_keys(self, keys: list[yaml.Node], path: Path) -> None:
        seen: set[str] = set()
        for key in keys:
            if not isinstance(key, yaml.ScalarNode) or key.tag != "tag:yaml.org,2002:str":
                shown = f" {key.value!r}" if isinstance(key, yaml.ScalarNode) else ""
                self._fail(key, path, f"the key{shown} is not text; put it in quotes")
            if key.value in seen:
                self._fail(key, (*path, key.value), "is given twice")
            seen.add(key.value)

    def _scalar(self, node: yaml.ScalarNode, path: Path) -> JsonValue:
        kind = _PLAIN_TAGS.get(node.tag)
        text: str = node.value
        if kind == "str" or node.tag in _TEXT_TAGS:
            return text
        if kind is None:
            self._fail(node, path, f"the tag {node.tag} is not allowed")
        construct: Any = getattr(self._loader, f"construct_yaml_{kind}")
        try:
            value: JsonValue = construct(node)
        except (ValueError, LookupError, OverflowError):
            self._fail(node, path, f"{text[:40]!r} is not of type {kind}")
        if isinstance(value, float) and not math.isfinite(value):
            self._fail(node, path, f"{text!r} is not a finite number")
        return value

    def _fail(self, node: yaml.Node, path: Path, problem: str) -> NoReturn:
        mark = node.start_mark
        where = f"{dotted(path)}: " if path else ""
        raise ConfigurationError(f"{self._source}:{mark.line + 1}:{mark.column + 1}: {where}{problem}")
