"""Secrets that were written out, as encrypted references: ``sealed:KEY_ID:BASE64``.

With a cluster there is no private file that both the command and the workers can read. A sealed
reference may stand wherever ``env:NAME`` may; only who has the payload key can resolve it.
"""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Mapping

from ...contracts.errors import ConfigurationError
from .cipher import Cipher, missing_key
from .keys import payload_keys

_PREFIX = "sealed:"
_PURPOSE = "agentcompass secret 1"


def seal_secret(value: str, env: Mapping[str, str] = os.environ) -> str:
    """``value`` as a sealed reference. Raises ``ConfigurationError`` when no payload key is set."""
    keys = payload_keys(env)
    if keys is None:
        raise ConfigurationError("a secret is sealed with a payload key, and none is configured")
    sealed = Cipher(keys, _PURPOSE).encrypt(value.encode("utf-8", "surrogatepass"))
    return f"{_PREFIX}{keys.current}:{base64.urlsafe_b64encode(sealed).decode('ascii')}"


def unseal_secret(reference: str, env: Mapping[str, str] = os.environ) -> str:
    """The value of a sealed reference. Raises ``ConfigurationError`` for a missing or wrong key."""
    key_id, _, text = reference.removeprefix(_PREFIX).partition(":")
    keys = payload_keys(env)
    if keys is None:
        raise missing_key(key_id)
    try:
        data = base64.b64decode(text, altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise ConfigurationError("a sealed secret is cut off or was changed") from None
    return Cipher(keys, _PURPOSE).decrypt(key_id, data).decode("utf-8", "surrogatepass")
