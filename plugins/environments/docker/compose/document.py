"""The text of a compose file as plain values, with its variables replaced.

The file is a stranger's: it reads no variable of the worker, and its size is bounded when all its
aliases are followed, not only as it is written.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ....yaml_text import YamlTextError, read_yaml

LARGEST_BYTES = 256 * 1024
MOST_VALUES = 20_000
TASK_IMAGE = "<the image of the task>"
LOGS_OF_MACHINE = "<a folder for logs>"
VARIABLES: Mapping[str, str] = {
    "MAIN_IMAGE_NAME": TASK_IMAGE,
    "PREBUILT_IMAGE_NAME": TASK_IMAGE,
    "CONTEXT_DIR": ".",
    "TEST_DIR": "/tests",
    "HOST_VERIFIER_LOGS_PATH": LOGS_OF_MACHINE,
    "HOST_AGENT_LOGS_PATH": LOGS_OF_MACHINE,
    "HOST_ARTIFACTS_PATH": LOGS_OF_MACHINE,
    "ENV_VERIFIER_LOGS_PATH": "/logs/verifier",
    "ENV_AGENT_LOGS_PATH": "/logs/agent",
    "ENV_ARTIFACTS_PATH": "/logs/artifacts",
    "CPUS": "",
    "MEMORY": "",
}
"""What Harbor sets for compose files. Limits are empty: those of ``task.toml`` hold."""
_REFERENCE = re.compile(
    r"\$(?:(?P<escaped>\$)|(?P<bare>[A-Za-z_]\w*)|"
    r"\{(?P<name>[A-Za-z_]\w*)(?:(?P<operator>:?[-?])(?P<default>[^}$]*))?\}|(?P<other>))"
)


class ComposeError(Exception):
    """The file cannot be run here; the message says what in it, without the file's name."""


def parse(text: str) -> dict[str, Any]:
    """The values of the file. Raises ``ComposeError``."""
    if len(text.encode("utf-8", "surrogatepass")) > LARGEST_BYTES:
        raise ComposeError(f"it is larger than {LARGEST_BYTES} bytes")
    try:
        plain = _Copy().of(read_yaml(text), "")
    except YamlTextError as error:
        raise ComposeError(f"it is not YAML: {error}") from None
    except RecursionError:
        raise ComposeError("it is nested too deeply") from None
    if not isinstance(plain, dict):
        raise ComposeError("it is no mapping with services")
    return plain


class _Copy:
    """A copy of the values that shares nothing, so that an alias counts each time."""

    def __init__(self) -> None:
        self._values = 0

    def of(self, value: Any, place: str) -> Any:
        self._values += 1
        if self._values > MOST_VALUES:
            raise ComposeError(f"it has more than {MOST_VALUES} values")
        if isinstance(value, dict):
            for key in value:
                if not isinstance(key, str):
                    raise ComposeError(f"{_under(place, key)}: a key must be a text")
                _require_text(key, _under(place, ascii(key)))
            return {
                key: self.of(item, _under(place, key))
                for key, item in value.items()
                if not key.startswith("x-")
            }
        if isinstance(value, list):
            return [self.of(item, f"{place}[{index}]") for index, item in enumerate(value)]
        if isinstance(value, str):
            return _replaced(value, place)
        if value is None or isinstance(value, bool | int | float):
            return value
        return str(value)  # YAML makes dates of what looks like one


def _replaced(text: str, place: str) -> str:
    def value_of(found: re.Match[str]) -> str:
        if found["escaped"]:
            return "$"
        name = found["bare"] or found["name"]
        if name is None:
            raise ComposeError(f"{place}: {text[:60]!r} has a '$' that is no variable; write '$$' for one")
        known = VARIABLES.get(name)
        if known is not None and (known or not (found["operator"] or "").startswith(":")):
            return known
        if (found["operator"] or "").endswith("-"):
            default: str = found["default"]
            return default
        raise ComposeError(
            f"{place} reads the variable {name} of the worker, which a task may not; "
            f"a default would do, as in ${{{name}:-value}}"
        )

    _require_text(text, place)
    return _REFERENCE.sub(value_of, text)


def _require_text(text: str, place: str) -> None:
    if "\0" in text or any("\ud800" <= character <= "\udfff" for character in text):
        raise ComposeError(f"{place} holds a NUL character, or half of one")


def _under(place: str, key: object) -> str:
    return f"{place}.{key}" if place else str(key)
