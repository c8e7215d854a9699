"""AES-256-GCM under keys with ids."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from ...contracts.errors import ConfigurationError
from ...contracts.extras import install_command
from .keys import KEY_VARIABLE, KEYS_VARIABLE, PayloadKeys

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

NONCE_BYTES = 12


class Cipher:
    """Encrypts with the current key, decrypts with any.

    ``purpose`` is authenticated with every ciphertext, so that one made for another purpose is not
    taken for one of this. Nonces are random: replace a key before it has encrypted 2**32 values.
    """

    def __init__(self, keys: PayloadKeys, purpose: str) -> None:
        made = _aes_gcm()
        self.current = keys.current
        self._purpose = purpose
        self._keys: dict[str, AESGCM] = {name: made(key) for name, key in keys.keys.items()}

    def encrypt(self, data: bytes) -> bytes:
        """Nonce, ciphertext and tag, under the current key."""
        nonce = secrets.token_bytes(NONCE_BYTES)
        return nonce + self._keys[self.current].encrypt(nonce, data, self._bound_to(self.current))

    def decrypt(self, key_id: str, data: bytes) -> bytes:
        """Raises ``ConfigurationError`` when the key is not among ours, or is another one of that id."""
        from cryptography.exceptions import InvalidTag

        key = self._keys.get(key_id)
        if key is None:
            raise missing_key(key_id)
        try:
            return key.decrypt(data[:NONCE_BYTES], data[NONCE_BYTES:], self._bound_to(key_id))
        except (InvalidTag, ValueError):  # ValueError: too short to hold a nonce
            raise ConfigurationError(
                f"what was encrypted with key '{key_id}' cannot be decrypted with the key that "
                f"{KEYS_VARIABLE} names '{key_id}' here: it is another key, or the data were changed"
            ) from None

    def _bound_to(self, key_id: str) -> bytes:
        return f"{self._purpose}\0{key_id}".encode()


def missing_key(key_id: str) -> ConfigurationError:
    """What a process says that meets something encrypted with a key that it does not have."""
    return ConfigurationError(
        f"this was encrypted with key '{key_id[:64]}', which this process does not have: set {KEY_VARIABLE} or "
        f"{KEYS_VARIABLE} as for the workers and commands that wrote it"
    )


def _aes_gcm() -> type[AESGCM]:
    try:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    except ImportError:
        raise ConfigurationError(
            f"{KEY_VARIABLE} is set, but encryption is not installed: {install_command('encryption')}"
        ) from None
    return AESGCM
