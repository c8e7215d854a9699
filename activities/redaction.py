"""Masking of secrets in everything that is written: the second line of defence.

The first is that requests hold references only. Here, values that were resolved in this process
are masked wherever they appear, and fields and texts that look like secrets are masked in what
people read.
"""

from __future__ import annotations

import base64
import json
import logging
import re
import threading
from collections.abc import Set
from functools import lru_cache
from typing import Any
from urllib.parse import quote

import orjson

from ..contracts.secrets import MASK, is_secret_reference, is_sensitive_name

MINIMUM_LENGTH = 6
"""Shorter values are not registered: masking them would eat ordinary words."""

_SHAPES = re.compile(
    r"(?P<bearer>\bBearer\s+)[A-Za-z0-9._~+/=-]{8,}"
    r"|\bsk-[A-Za-z0-9_-]{12,}"
    r"|(?P<scheme>\b[a-z][a-z0-9+.-]{1,20}://)[^\s/:@'\"]*:[^\s/@'\"]+(?P<at>@)"
)
_MINIMUM_BASE64 = 12
"""Less of a secret's base64 is neither recognisable nor of much use."""
_URL_SAFE = str.maketrans("+/", "-_")
_VARIABLE = re.compile(r"^\$\{[A-Za-z_][A-Za-z0-9_]*\}$")
_NOTHING: frozenset[str] = frozenset()
_sensitive = lru_cache(maxsize=4096)(is_sensitive_name)


def _mask_shape(match: re.Match[str]) -> str:
    return f"{match['bearer'] or match['scheme'] or ''}{MASK}{match['at'] or ''}"


def _written_forms(value: str) -> set[str]:
    """A secret as it is, as it stands in an address, and as it stands in base64 text."""
    data = value.encode("utf-8", "surrogatepass")
    forms = {value, quote(data), quote(data, safe="")}
    for before in range(3):
        # Other text before the secret, as in ``user:secret``, shifts its base64 by up to two bytes;
        # the characters at the ends depend on that text and on what follows.
        encoded = base64.b64encode(b"\0" * before + data).decode("ascii")
        complete = len(encoded) if (before + len(data)) % 3 == 0 else len(encoded) // 4 * 4 - 4
        core = encoded[4 if before else 0 : complete]
        if len(core) >= _MINIMUM_BASE64:
            forms |= {core, core.translate(_URL_SAFE)}
    return forms


class Redactor:
    """Knows the secrets of this process and masks them. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values: tuple[str, ...] = ()
        self._needles: tuple[bytes, ...] = ()

    def register(self, value: str) -> None:
        """Mask ``value`` from now on, percent-encoded and in base64, too. References are not secrets."""
        if len(value) < MINIMUM_LENGTH or is_secret_reference(value):
            return
        with self._lock:
            known = {*self._values, *_written_forms(value)}
            # The longest first: a secret that contains another one is masked as a whole.
            self._values = tuple(sorted(known, key=lambda item: (-len(item), item)))
            self._needles = tuple(
                json.dumps(item, ensure_ascii=False)[1:-1].encode("utf-8", "surrogatepass")
                for item in self._values
            )

    def known_in(self, data: bytes) -> bool:
        """True when JSON text holds a registered value."""
        return any(needle in data for needle in self._needles)

    def known_text(self, text: str) -> str:
        """``text`` with registered values masked, and nothing else."""
        for value in self._values:
            if value in text:
                text = text.replace(value, MASK)
        return text

    def text(self, text: str) -> str:
        """``text`` with registered values and what looks like a credential masked."""
        text = self.known_text(text) if self._values else text
        return _SHAPES.sub(_mask_shape, text) if len(text) > MINIMUM_LENGTH else text

    def known(self, value: Any) -> Any:
        """A JSON value with registered values masked, in keys, too. Content is otherwise untouched."""
        if not self._values or value is None:
            return value
        try:
            if not self.known_in(orjson.dumps(value)):
                return value  # nearly always, and much faster than a walk through a long trajectory
        except orjson.JSONEncodeError:
            pass  # a huge integer or a lone surrogate: walk
        return self._walk_known(value)

    def _walk_known(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.known_text(value)
        if isinstance(value, dict):
            return {self.known_text(str(key)): self._walk_known(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self._walk_known(item) for item in value]
        return value

    def value(self, value: Any, content_keys: Set[str] = _NOTHING) -> Any:
        """A JSON value fit for people: registered values, sensitive fields and credentials masked.

        Below ``content_keys`` lies what a benchmark or an agent said; there only registered
        values are masked, or a tool argument called ``key`` would vanish from its trajectory.
        """
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {
                self.known_text(str(key)): self._field(str(key), item, content_keys)
                for key, item in value.items()
            }
        if isinstance(value, list | tuple):
            return [self.value(item, content_keys) for item in value]
        return value

    def _field(self, name: str, value: Any, content_keys: Set[str]) -> Any:
        if name in content_keys:
            return self.known(value)
        if value and not isinstance(value, bool | int | float) and _sensitive(name):
            return _mask_all(value)
        return self.value(value, content_keys)


def _mask_all(value: Any) -> Any:
    """Every string below a sensitive field masked; references and empty strings stay readable."""
    if isinstance(value, str):
        return value if not value or is_secret_reference(value) or _VARIABLE.match(value) else MASK
    if isinstance(value, dict):
        return {key: _mask_all(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_mask_all(item) for item in value]
    return value


REDACTOR = Redactor()
"""The process's redactor: whoever resolves a secret registers it here."""


class RedactingFilter(logging.Filter):
    """Masks secrets in a record's message and traceback before any handler formats it."""

    def __init__(self, redactor: Redactor = REDACTOR) -> None:
        super().__init__()
        self._redactor = redactor
        self._formatter = logging.Formatter()

    def filter(self, record: logging.LogRecord) -> bool:
        """Replace message and traceback by their masked texts; never drops a record."""
        record.msg, record.args = self._redactor.text(record.getMessage()), None
        if record.exc_info and not record.exc_text:
            record.exc_text = self._formatter.formatException(record.exc_info)
        if record.exc_text:
            record.exc_text = self._redactor.text(record.exc_text)
        return True
