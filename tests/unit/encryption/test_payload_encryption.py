"""What goes through Temporal is unreadable without the key, and tells when the key is wrong."""

from __future__ import annotations

import base64
from collections.abc import Mapping

import pytest
from temporalio.api.common.v1 import Payload
from temporalio.api.failure.v1 import Failure
from temporalio.exceptions import ApplicationError

from agentcompass.activities.data_converter import data_converter
from agentcompass.activities.encryption import seal_secret, unseal_secret
from agentcompass.activities.redaction import REDACTOR
from agentcompass.contracts.errors import ConfigurationError
from agentcompass.contracts.secrets import is_secret_reference

ONE = base64.b64encode(bytes(range(32))).decode()
TWO = base64.b64encode(bytes(range(32, 64))).decode()
OLD: Mapping[str, str] = {"AGENTCOMPASS_PAYLOAD_KEYS": f"old={ONE}"}
ROTATED: Mapping[str, str] = {"AGENTCOMPASS_PAYLOAD_KEYS": f"new={TWO},old={ONE}"}
NEW: Mapping[str, str] = {"AGENTCOMPASS_PAYLOAD_KEYS": f"new={TWO}"}
IMPOSTOR: Mapping[str, str] = {"AGENTCOMPASS_PAYLOAD_KEYS": f"old={TWO}"}
VALUE = {"question": "what is the launch code?"}


async def test_value_comes_back_and_is_unreadable_in_between() -> None:
    [payload] = await data_converter(OLD).encode([VALUE])
    assert b"launch code" not in payload.SerializeToString()
    assert payload.metadata["encryption-key-id"] == b"old"
    assert await data_converter(OLD).decode([payload]) == [VALUE]


async def test_same_value_is_never_encrypted_to_the_same_bytes() -> None:
    one, two = await data_converter(OLD).encode([VALUE, VALUE])
    assert one.data != two.data


async def test_after_a_rotation_old_values_stay_readable_and_new_ones_use_the_new_key() -> None:
    [before] = await data_converter(OLD).encode([VALUE])
    [after] = await data_converter(ROTATED).encode([VALUE])
    assert await data_converter(ROTATED).decode([before, after]) == [VALUE, VALUE]
    assert after.metadata["encryption-key-id"] == b"new"
    assert await data_converter(NEW).decode([after]) == [VALUE]


async def test_values_from_before_encryption_stay_readable() -> None:
    [plain] = await data_converter({}).encode([VALUE])
    assert await data_converter(OLD).decode([plain]) == [VALUE]


@pytest.mark.parametrize(
    ("env", "message"),
    [
        ({}, "encrypted with key 'old', which this process does not have: set AGENTCOMPASS_PAYLOAD_KEY"),
        (NEW, "encrypted with key 'old', which this process does not have"),
        (IMPOSTOR, "it is another key, or the data were changed"),
    ],
)
async def test_missing_or_wrong_key_is_named(env: Mapping[str, str], message: str) -> None:
    [payload] = await data_converter(OLD).encode([VALUE])
    with pytest.raises(ConfigurationError) as caught:
        await data_converter(env).decode([payload])
    assert message in str(caught.value)


@pytest.mark.parametrize("data", [b"", b"short", b"0" * 40])
async def test_data_that_were_changed_are_refused(data: bytes) -> None:
    metadata = {"encoding": b"binary/encrypted", "encryption-key-id": b"old"}
    with pytest.raises(ConfigurationError, match="the data were changed"):
        await data_converter(OLD).decode([Payload(metadata=metadata, data=data)])


async def test_messages_and_traces_of_failures_are_encrypted_at_every_level_after_masking() -> None:
    REDACTOR.register("sekrit-of-the-failure")
    error = ApplicationError("outer: launch code", "detail: launch code", type="model_error")
    error.__cause__ = ValueError("inner: launch code sekrit-of-the-failure")
    failure = Failure()
    await data_converter(OLD).encode_failure(error, failure)
    assert b"launch code" not in failure.SerializeToString()
    assert failure.message == failure.cause.message == "Encoded failure"
    assert failure.application_failure_info.type == "model_error"
    decoded = await data_converter(OLD).decode_failure(failure)
    assert isinstance(decoded, ApplicationError) and decoded.message == "outer: launch code"
    assert decoded.details == ("detail: launch code",)
    assert str(decoded.__cause__) == "ValueError: inner: launch code ***"


async def test_failure_that_is_passed_on_is_encrypted_again() -> None:
    """A child's failure becomes its parent's: decoded in between, it must not go out in clear text."""
    failure, again = Failure(), Failure()
    converter = data_converter(OLD)
    first = ApplicationError("launch code")
    first.__cause__ = ValueError("launch code below")
    await converter.encode_failure(first, failure)
    await converter.encode_failure(await converter.decode_failure(failure), again)
    assert b"launch code" not in again.SerializeToString()
    decoded = await converter.decode_failure(again)
    assert isinstance(decoded, ApplicationError) and decoded.message == "launch code"
    assert "launch code below" in str(decoded.__cause__)


def test_sealed_secret_is_a_reference_that_only_the_key_opens() -> None:
    reference = seal_secret("sk-the-model's-key", OLD)
    assert is_secret_reference(reference) and reference.startswith("sealed:old:")
    assert "sk-the" not in reference
    assert unseal_secret(reference, ROTATED) == "sk-the-model's-key"
    for env in ({}, NEW, IMPOSTOR):
        with pytest.raises(ConfigurationError):
            unseal_secret(reference, env)
    with pytest.raises(ConfigurationError):
        unseal_secret(reference[:-9], OLD)


async def test_sealed_secret_is_not_taken_for_a_payload() -> None:
    """The purpose is part of what is authenticated."""
    sealed = base64.urlsafe_b64decode(seal_secret("value", OLD).split(":")[2])
    metadata = {"encoding": b"binary/encrypted", "encryption-key-id": b"old"}
    with pytest.raises(ConfigurationError):
        await data_converter(OLD).decode([Payload(metadata=metadata, data=sealed)])
