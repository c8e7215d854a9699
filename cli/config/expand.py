"""``${VAR}`` and ``${VAR:-default}`` inside configuration strings; ``$${`` is a literal ``${``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ...contracts.errors import ConfigurationError

_TOKEN = re.compile(r"\$\$\{|\$\{(?:([A-Za-z_][A-Za-z0-9_]*)(:-([^}]*))?\})?")


@dataclass(frozen=True)
class Variable:
    """One reference to an environment variable."""

    name: str
    default: str | None = None

    def value(self, env: Mapping[str, str], place: str) -> str:
        """Its value; as in a shell, the default also stands in for an empty one.

        Raises:
            ConfigurationError: not set, and no default.
        """
        found = env.get(self.name)
        if self.default is not None:
            return found or self.default
        if found is None:
            raise ConfigurationError(
                f"{place}: environment variable {self.name} is not set; "
                f"set it, or write ${{{self.name}:-default}}"
            )
        return found


def variables(text: str, place: str) -> Iterator[Variable]:
    """The references in ``text``. Raises ``ConfigurationError`` for a malformed one."""
    for match in _TOKEN.finditer(text):
        if match.group() == "$${":
            continue
        if match.group(1) is None:
            raise ConfigurationError(
                f"{place}: '${{' does not begin a variable reference like ${{NAME}}; write $${{ for a literal ${{"
            )
        yield Variable(match.group(1), match.group(3))


def whole_variable(text: str) -> Variable | None:
    """The reference that ``text`` consists of, if it is exactly one."""
    match = _TOKEN.fullmatch(text)
    return Variable(match.group(1), match.group(3)) if match and match.group(1) else None


def has_variable(text: str) -> bool:
    """True when ``text`` holds something that expansion will replace."""
    return "${" in text


def expand(text: str, env: Mapping[str, str], place: str) -> str:
    """``text`` with its references replaced. Raises ``ConfigurationError``."""
    found = variables(text, place)

    def replace(match: re.Match[str]) -> str:
        return "${" if match.group() == "$${" else next(found).value(env, place)

    return _TOKEN.sub(replace, text)
