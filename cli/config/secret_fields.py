"""Expansion of variables, and secrets turned into references on the way.

What comes out of here goes into a workflow's input, which is kept. So a value of a field that
holds secrets leaves as a reference (``contracts/secrets.py``), and a variable that looks like a secret
is not expanded into any other field.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from pydantic import JsonValue

from ...activities.redaction import REDACTOR
from ...contracts.errors import ConfigurationError
from ...contracts.secrets import is_secret_reference, is_sensitive_name
from .expand import Variable, expand, has_variable, variables, whole_variable
from .places import Path, Tree
from .secret_store import StoreLiteral

_PENDING = re.compile(r"file:/agentcompass-pending-secret/(\d+)")


@dataclass
class SecretFields:
    """Expands a merged tree. Literal secrets wait in memory until ``store`` is called."""

    env: Mapping[str, str]
    describe: Callable[[Path], str]
    """Names the place of a value for the user."""
    _pending: list[tuple[str, str]] = field(default_factory=list, repr=False)

    def expand(self, value: JsonValue, path: Path = ()) -> JsonValue:
        """``value`` expanded. Raises ``ConfigurationError`` that names variable and place."""
        if isinstance(value, dict):
            return {key: self.expand(item, (*path, key)) for key, item in value.items()}
        if isinstance(value, list):
            return [self.expand(item, (*path, index)) for index, item in enumerate(value)]
        if _is_env_variable(path) and isinstance(value, int) and not isinstance(value, bool):
            value = str(value)
        if not isinstance(value, str):
            return value
        if _holds_secret(path):
            return self._secret(value, path)
        return self._plain(value, path)

    def expand_tree(self, tree: Tree) -> Tree:
        """A whole tree expanded."""
        return {key: self.expand(value, (key,)) for key, value in tree.items()}

    def store(self, tree: Tree, store_literal: StoreLiteral) -> Tree:
        """``tree`` with every pending secret stored and its reference put in; call once all is valid."""
        references = [self._store_one(value, place, store_literal) for value, place in self._pending]
        stored = _replace_pending(tree, references)
        assert isinstance(stored, dict)
        return stored

    def _plain(self, text: str, path: Path) -> str:
        if not has_variable(text):
            return text
        place = self.describe(path)
        whole = whole_variable(text)
        for variable in variables(text, place):
            if not is_sensitive_name(variable.name):
                continue
            if _is_env_variable(path) and whole is not None:
                return self._reference(whole, place)
            raise ConfigurationError(
                f"{place}: ${{{variable.name}}} looks like a secret, but this field is recorded in clear text; "
                "use a field that holds secrets (such as api_key), or a variable with another name"
            )
        return expand(text, self.env, place)

    def _secret(self, text: str, path: Path) -> str:
        place = self.describe(path)
        whole = whole_variable(text)
        if whole is not None:
            return self._reference(whole, place)
        if not text or is_secret_reference(text):
            return text
        if text.startswith(("env:", "file:", "sealed:")):
            raise ConfigurationError(f"{place}: a secret reference is env:NAME or file:/absolute/path")
        return self._keep(expand(text, self.env, place), place)

    def _reference(self, variable: Variable, place: str) -> str:
        found = self.env.get(variable.name)
        if found:
            REDACTOR.register(found)
            return f"env:{variable.name}"
        if variable.default is not None:
            return self._keep(variable.default, place) if variable.default else ""
        state = "empty" if variable.name in self.env else "not set"
        raise ConfigurationError(
            f"{place}: environment variable {variable.name} is {state}; it must hold the secret"
        )

    def _keep(self, value: str, place: str) -> str:
        REDACTOR.register(value)
        known = [item for item, _ in self._pending]
        if value not in known:
            known.append(value)
            self._pending.append((value, place))
        return f"file:/agentcompass-pending-secret/{known.index(value)}"

    @staticmethod
    def _store_one(value: str, place: str, store_literal: StoreLiteral) -> str:
        try:
            return store_literal(value)
        except ConfigurationError as error:
            raise ConfigurationError(f"{place}: {error}") from None


def _is_env_variable(path: Path) -> bool:
    return len(path) == 3 and path[0] == "environment" and str(path[1]).endswith("env_variables")


def _holds_secret(path: Path) -> bool:
    """True when the field, or one that it lies in, is named like a secret."""
    return any(isinstance(part, str) and is_sensitive_name(part) for part in path[1:])


def _replace_pending(value: JsonValue, references: list[str]) -> JsonValue:
    if isinstance(value, dict):
        return {key: _replace_pending(item, references) for key, item in value.items()}
    if isinstance(value, list):
        return [_replace_pending(item, references) for item in value]
    match = _PENDING.fullmatch(value) if isinstance(value, str) else None
    return references[int(match.group(1))] if match else value
