"""How values travel to Temporal: pydantic JSON, masked failures, a limit of their size, and encryption."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from google.protobuf.message import Message
from temporalio.api.common.v1 import Payload
from temporalio.api.failure.v1 import Failure
from temporalio.contrib.pydantic import PydanticPayloadConverter, pydantic_data_converter
from temporalio.converter import (
    CompositePayloadConverter,
    DataConverter,
    DefaultFailureConverter,
    PayloadConverter,
)
from temporalio.exceptions import ApplicationError

from .encryption import encryption_codec
from .encryption.codec import EncryptedWithoutKey
from .redaction import REDACTOR

MAX_PAYLOAD_BYTES = 1_500_000
"""Above 2 MB the server refuses, in some places by hanging or terminating the workflow."""


_CONVERTERS = (*PydanticPayloadConverter().converters.values(), EncryptedWithoutKey())

ENCODED = "Encoded failure"
"""What stands in place of a message that is encrypted, as in every SDK of Temporal."""


class GuardedPayloadConverter(CompositePayloadConverter):
    """The pydantic converter that refuses a payload that is too large by name, before it reaches the server."""

    def __init__(self) -> None:
        # The SDK makes several for every workflow task: they share their parts, which have no state.
        super().__init__(*_CONVERTERS)

    def to_payloads(self, values: Sequence[Any]) -> list[Payload]:
        """Raises a non-retryable ``ApplicationError`` (``payload_too_large``)."""
        payloads = super().to_payloads(values)
        for value, payload in zip(values, payloads, strict=True):
            if len(payload.data) > MAX_PAYLOAD_BYTES:
                raise ApplicationError(
                    f"{type(value).__name__} is {len(payload.data):,} bytes; at most {MAX_PAYLOAD_BYTES:,} "
                    "go through Temporal, larger things belong into the run directory",
                    type="payload_too_large",
                    non_retryable=True,
                )
        return payloads


class RedactingFailureConverter(DefaultFailureConverter):
    """Masks known secrets in the messages and stack traces of failures."""

    def to_failure(
        self, exception: BaseException, payload_converter: PayloadConverter, failure: Failure
    ) -> None:
        """As the default, masked at every level of the cause chain."""
        super().to_failure(exception, payload_converter, failure)
        for level in _levels(failure):
            level.message = REDACTOR.text(level.message)
            level.stack_trace = REDACTOR.text(level.stack_trace)


class EncodingFailureConverter(RedactingFailureConverter):
    """Moves messages and stack traces, once masked, to where a codec encrypts them."""

    def to_failure(
        self, exception: BaseException, payload_converter: PayloadConverter, failure: Failure
    ) -> None:
        """As its base; the SDK's own way of doing this would come before the masking."""
        super().to_failure(exception, payload_converter, failure)
        for level in _levels(failure):
            if level.message == ENCODED and _has(level, "encoded_attributes"):
                continue  # a failure that is passed on
            attributes = {"message": level.message, "stack_trace": level.stack_trace}
            level.encoded_attributes.CopyFrom(payload_converter.to_payloads([attributes])[0])
            level.message, level.stack_trace = ENCODED, ""


def _levels(failure: Failure) -> Iterator[Failure]:
    """A failure and its causes."""
    current: Failure | None = failure
    while current is not None:
        yield current
        current = current.cause if _has(current, "cause") else None


def _has(message: Message, field: str) -> bool:
    return message.HasField(field)


def data_converter(env: Mapping[str, str] = os.environ) -> DataConverter:
    """The converter of every client and worker of AgentCompass; encrypts when ``env`` names a payload key.

    Raises ``ConfigurationError`` for a key that cannot be used.
    """
    codec = encryption_codec(env)
    return dataclasses.replace(
        pydantic_data_converter,
        payload_converter_class=GuardedPayloadConverter,
        payload_codec=codec,
        failure_converter_class=RedactingFailureConverter if codec is None else EncodingFailureConverter,
    )
