"""Encryption of what goes through Temporal: keys, payloads, and secrets that were written out."""

from .codec import EncryptionCodec, encryption_codec
from .keys import KEY_VARIABLE, KEYS_VARIABLE, PayloadKeys, payload_keys
from .sealed import seal_secret, unseal_secret

__all__ = [
    "KEYS_VARIABLE",
    "KEY_VARIABLE",
    "EncryptionCodec",
    "PayloadKeys",
    "encryption_codec",
    "payload_keys",
    "seal_secret",
    "unseal_secret",
]
