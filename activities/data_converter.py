"""How values travel to Temporal: pydantic JSON, masked failures, and a limit of their size."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
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

from .redaction import REDACTOR

MAX_PAYLOAD_BYTES = 1_500_000
"""Above 2 MB the server refuses, in some places by hanging or terminating the workflow."""


_CONVERTERS = tuple(PydanticPayloadConverter().converters.values())


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
        current: Failure | None = failure
        while current is not None:
            current.message = REDACTOR.text(current.message)
            current.stack_trace = REDACTOR.text(current.stack_trace)
            current = current.cause if _has(current, "cause") else None


def _has(message: Message, field: str) -> bool:
    return message.HasField(field)


def data_converter() -> DataConverter:
    """The converter of every client and worker of AgentCompass."""
    return dataclasses.replace(
        pydantic_data_converter,
        payload_converter_class=GuardedPayloadConverter,
        failure_converter_class=RedactingFailureConverter,
    )
