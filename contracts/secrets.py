"""Secret references and the names of fields that hold secrets.

A secret enters AgentCompass as a reference and is resolved by an activity at the moment of use:
``env:NAME`` is an environment variable of the worker, ``file:/path`` a file it can read, and
``sealed:KEY_ID:DATA`` the secret itself, encrypted with a payload key that the worker has.
"""

from __future__ import annotations

import re

_REFERENCE = re.compile(r"^(env:[A-Za-z_][A-Za-z0-9_]*|file:/.+|sealed:[A-Za-z0-9._-]+:[A-Za-z0-9_=-]+)$")
_SENSITIVE = re.compile(
    r"(^|[_\-.])(api[_-]?keys?|access[_-]?keys?|private[_-]?keys?|secrets?|secret[_-]?key|tokens?|"
    r"passwords?|passwd|credentials?|authorization|auth[_-]?header|bearer)$|^key$|apikey$|(?<!max)(?<!num)token$",
    re.IGNORECASE,
)
# Words, not endings of words: AGENT_TOKEN is no n_token.
_NOT_SECRET = re.compile(
    r"(^|[_\-.])(max|min|num|n|total|prompt|completion|cached|reasoning|input|output|budget|context|stop|pad|eos|bos)"
    r"[_-]?((\w+[_-])?tokens|token)$",
    re.I,
)

MASK = "***"
"""What is written in place of a secret."""


def is_secret_reference(value: str) -> bool:
    """True for ``env:NAME``, ``file:/absolute/path`` and ``sealed:KEY_ID:DATA``."""
    return bool(_REFERENCE.match(value))


def is_sensitive_name(name: str) -> bool:
    """True when a field, variable or header of this name usually holds a secret."""
    return bool(_SENSITIVE.search(name)) and not _NOT_SECRET.search(name)
