"""The keys that payloads are encrypted with, and where they come from.

``AGENTCOMPASS_PAYLOAD_KEY`` is one key. ``AGENTCOMPASS_PAYLOAD_KEYS`` is ``id=key,id=key``: the first
encrypts, all of them decrypt, which is how a key is replaced while launches are under way. A key is
``file:/path``, ``env:NAME``, or itself: 32 bytes as base64 or hexadecimal.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ...contracts.errors import ConfigurationError
from ..redaction import REDACTOR

KEY_VARIABLE = "AGENTCOMPASS_PAYLOAD_KEY"
KEYS_VARIABLE = "AGENTCOMPASS_PAYLOAD_KEYS"

KEY_BYTES = 32
"""AES-256."""

_KEY_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
_HOW_TO_MAKE_ONE = "make one with: openssl rand -base64 32"


@dataclass(frozen=True)
class PayloadKeys:
    """Keys by id; ``current`` is the one that encrypts."""

    current: str
    keys: Mapping[str, bytes] = field(repr=False)


def payload_keys(env: Mapping[str, str] = os.environ) -> PayloadKeys | None:
    """The keys that ``env`` names; ``None`` when it names none, and nothing is encrypted.

    Raises ``ConfigurationError`` that names the variable, and never shows a key.
    """
    single, several = env.get(KEY_VARIABLE, "").strip(), env.get(KEYS_VARIABLE, "").strip()
    if single and several:
        raise ConfigurationError(f"{KEY_VARIABLE} and {KEYS_VARIABLE} are both set; keep one of them")
    if single:
        key = _key(single, env, KEY_VARIABLE)
        name = _fingerprint(key)
        return PayloadKeys(name, {name: key})
    if not several:
        return None
    return _several(several, env)


def _several(text: str, env: Mapping[str, str]) -> PayloadKeys:
    found: dict[str, bytes] = {}
    for index, item in enumerate(text.split(","), start=1):
        name, separator, value = item.strip().partition("=")
        # The item itself is not shown: it may be a key.
        if not separator or not _KEY_ID.fullmatch(name):
            raise ConfigurationError(
                f"{KEYS_VARIABLE}: entry {index} is not id=key (an id has letters, digits, '.', '_' and '-')"
            )
        if name in found:
            raise ConfigurationError(f"{KEYS_VARIABLE}: key id '{name}' is there twice")
        found[name] = _key(value.strip(), env, f"{KEYS_VARIABLE}, key '{name}'")
    return PayloadKeys(next(iter(found)), found)


def configured_secret(value: str, env: Mapping[str, str], place: str) -> str:
    """A secret of a process's own configuration: ``file:/path``, ``env:NAME``, or itself.

    It is masked from now on. Raises ``ConfigurationError`` that names ``place``.
    """
    if value.startswith("file:"):
        text = _read(value.removeprefix("file:"), place)
    elif value.startswith("env:"):
        name = value.removeprefix("env:")
        text = env.get(name, "").strip()
        if not text:
            raise ConfigurationError(f"{place}: environment variable {name} is not set")
    else:
        text = value
    REDACTOR.register(text)
    return text


def _key(value: str, env: Mapping[str, str], place: str) -> bytes:
    key = _decoded(configured_secret(value, env, place))
    if key is None or len(key) != KEY_BYTES:
        raise ConfigurationError(
            f"{place}: a key is {KEY_BYTES} bytes as base64 or hexadecimal; {_HOW_TO_MAKE_ONE}"
        )
    return key


def _read(path: str, place: str) -> str:
    if not path.startswith("/"):
        raise ConfigurationError(f"{place}: file:{path} is not an absolute path")
    try:
        return Path(path).read_text(encoding="ascii").strip()
    except OSError as error:
        raise ConfigurationError(f"{place}: {path} cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise ConfigurationError(f"{place}: {path} is not a text of ASCII characters") from None


def _decoded(text: str) -> bytes | None:
    if re.fullmatch(rf"[0-9a-fA-F]{{{2 * KEY_BYTES}}}", text):
        return bytes.fromhex(text)
    try:
        return base64.b64decode(text.replace("-", "+").replace("_", "/"), validate=True)
    except (binascii.Error, ValueError):
        return None


def _fingerprint(key: bytes) -> str:
    """The id of a key that was given none: tells keys apart and nothing about them."""
    return "k" + hashlib.sha256(b"agentcompass payload key id\0" + key).hexdigest()[:12]
