"""Encrypts every payload on its way to Temporal."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from google.protobuf.message import DecodeError
from temporalio.api.common.v1 import Payload
from temporalio.converter import EncodingPayloadConverter, PayloadCodec

from ...contracts.errors import ConfigurationError
from .cipher import Cipher, missing_key
from .keys import PayloadKeys, payload_keys

ENCODING = "binary/encrypted"
"""As in the samples of Temporal, so that its tools know what they see."""

CIPHER = b"AES-256-GCM"
_KEY_ID = "encryption-key-id"


class EncryptionCodec(PayloadCodec):
    """Whole payloads, their metadata included, under AES-256-GCM.

    What was written before encryption was switched on stays readable: it is passed through.
    """

    def __init__(self, keys: PayloadKeys) -> None:
        self._cipher = Cipher(keys, "agentcompass payload 1")

    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        """Every payload encrypted with the current key."""
        return [self._encrypted(payload) for payload in payloads]

    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        """Raises ``ConfigurationError`` for a key that is missing or wrong."""
        return [self._decrypted(payload) for payload in payloads]

    def _encrypted(self, payload: Payload) -> Payload:
        return Payload(
            metadata={
                "encoding": ENCODING.encode(),
                "encryption-cipher": CIPHER,
                _KEY_ID: self._cipher.current.encode(),
            },
            data=self._cipher.encrypt(payload.SerializeToString()),
        )

    def _decrypted(self, payload: Payload) -> Payload:
        if payload.metadata.get("encoding", b"") != ENCODING.encode():
            return payload
        data = self._cipher.decrypt(_key_id(payload), payload.data)
        try:
            return Payload.FromString(data)
        except DecodeError:
            raise ConfigurationError("an encrypted payload holds no payload") from None


class EncryptedWithoutKey(EncodingPayloadConverter):
    """Stands where no key is configured: says so instead of "unknown encoding"."""

    @property
    def encoding(self) -> str:
        """See base class."""
        return ENCODING

    def to_payload(self, value: Any) -> Payload | None:
        """Nothing is encrypted here."""
        return None

    def from_payload(self, payload: Payload, type_hint: type | None = None) -> Any:
        """Raises ``ConfigurationError`` that names the missing key."""
        raise missing_key(_key_id(payload))


def _key_id(payload: Payload) -> str:
    return payload.metadata.get(_KEY_ID, b"").decode("utf-8", "replace")


def encryption_codec(env: Mapping[str, str] = os.environ) -> EncryptionCodec | None:
    """The codec for the keys that ``env`` names, if any. Raises ``ConfigurationError``."""
    keys = payload_keys(env)
    return EncryptionCodec(keys) if keys is not None else None
