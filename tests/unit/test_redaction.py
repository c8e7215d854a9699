"""Secrets are masked where they are known or recognisable, and nothing else is."""

import base64
import logging

import pytest

from agentcompass.activities.redaction import RedactingFilter, Redactor
from agentcompass.contracts.secrets import is_sensitive_name

SECRET = 'p4ss"w\\ord/é-0123'


@pytest.mark.parametrize(
    "name",
    [
        "AGENT_TOKEN",
        "OPENAI_TOKEN",
        "CONTEXT_SERVICE_TOKEN",
        "GITHUB_TOKEN",
        "accessToken",
        "api_key",
        "DB_PASSWORD",
    ],
)
def test_a_name_of_a_secret_is_known_whatever_its_other_words_end_in(name: str) -> None:
    assert is_sensitive_name(name)


@pytest.mark.parametrize(
    "name",
    [
        "max_tokens",
        "max_new_tokens",
        "n_tokens",
        "maxTokens",
        "bos_token",
        "thinking_budget_tokens",
        "MIN_TOKEN",
    ],
)
def test_a_number_of_tokens_and_a_mark_of_text_are_no_secrets(name: str) -> None:
    assert not is_sensitive_name(name)


@pytest.fixture
def redactor() -> Redactor:
    redactor = Redactor()
    redactor.register(SECRET)
    return redactor


def test_registered_value_is_masked_in_text(redactor: Redactor) -> None:
    assert redactor.text(f"login with {SECRET}!") == "login with ***!"


def test_registered_value_is_masked_where_it_is_percent_encoded(redactor: Redactor) -> None:
    assert redactor.text("q=p4ss%22w%5Cord%2F%C3%A9-0123&x=1") == "q=***&x=1"


@pytest.mark.parametrize("before", ["", "u", "us", "user:"])
def test_registered_value_is_masked_in_base64_whatever_stands_before_it(before: str) -> None:
    redactor = Redactor()
    redactor.register("key-0123456789-abcdefghij")
    encoded = base64.b64encode(f"{before}key-0123456789-abcdefghij and more".encode()).decode()
    masked = redactor.text(encoded)
    assert "***" in masked
    # At most the bytes that share a group of four characters with other text can be read.
    left = [base64.b64decode(part + "=" * (-len(part) % 4)) for part in masked.split("***")]
    assert b"0123456789" not in b"".join(left) and b"abcdefg" not in b"".join(left)


def test_registered_value_is_found_in_json_text_although_it_is_escaped_there(redactor: Redactor) -> None:
    assert redactor.known_in('{"a": "p4ss\\"w\\\\ord/é-0123"}'.encode())
    assert not redactor.known_in(b'{"a": "nothing"}')


def test_registered_value_is_masked_deep_inside_and_in_keys(redactor: Redactor) -> None:
    value = {"a": [{SECRET: f"x{SECRET}x"}], "n": 5}
    assert redactor.known(value) == {"a": [{"***": "x***x"}], "n": 5}


def test_longer_secret_that_contains_a_shorter_one_is_masked_whole() -> None:
    redactor = Redactor()
    redactor.register("abcdef")
    redactor.register("abcdef-and-more")
    assert redactor.text("abcdef-and-more abcdef") == "*** ***"


def test_short_values_are_not_registered() -> None:
    redactor = Redactor()
    redactor.register("12345")
    assert redactor.text("12345") == "12345"


@pytest.mark.parametrize("reference", ["env:OPENAI_API_KEY", "file:/run/secrets/key"])
def test_references_stay_readable_even_when_registered(reference: str) -> None:
    redactor = Redactor()
    redactor.register(reference)
    assert redactor.value({"api_key": reference}) == {"api_key": reference}


def test_sensitive_fields_are_masked_by_name() -> None:
    value = {"api_key": "abc", "headers": {"Authorization": "Basic x"}, "secrets": ["a", {"b": "c"}]}
    assert Redactor().value(value) == {
        "api_key": "***",
        "headers": {"Authorization": "***"},
        "secrets": ["***", {"b": "***"}],
    }


def test_counts_of_tokens_and_empty_keys_are_not_masked() -> None:
    value = {"max_tokens": 100, "prompt_tokens": 7, "api_key": "", "token": None, "stop_token": "<eos>"}
    assert Redactor().value(value) == value


def test_content_below_content_keys_is_not_masked_by_name_or_shape(redactor: Redactor) -> None:
    value = {"ground_truth": {"key": "Enter", "said": "Bearer of good news", "s": SECRET}, "key": "k"}
    masked = redactor.value(value, frozenset({"ground_truth"}))
    assert masked == {
        "ground_truth": {"key": "Enter", "said": "Bearer of good news", "s": "***"},
        "key": "***",
    }


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("Authorization: Bearer abcdefgh12345678", "Authorization: Bearer ***"),
        ("key sk-proj_ABCdef0123456789 rejected", "key *** rejected"),
        ("https://user:hunter2@host/path", "https://***@host/path"),
        ("see https://host:8080/path@v2", "see https://host:8080/path@v2"),
        ("risk-averse skating", "risk-averse skating"),
    ],
)
def test_shapes_of_credentials_are_masked_in_text(text: str, masked: str) -> None:
    assert Redactor().text(text) == masked


def test_values_that_orjson_cannot_encode_are_still_masked(redactor: Redactor) -> None:
    assert redactor.known({"n": 10**40, "s": SECRET}) == {"n": 10**40, "s": "***"}


def test_logging_filter_masks_arguments_and_tracebacks(redactor: Redactor) -> None:
    try:
        raise ValueError(f"bad {SECRET}")
    except ValueError as error:
        info = (type(error), error, error.__traceback__)
    record = logging.LogRecord("x", logging.ERROR, "f", 1, "got %s", (SECRET,), info)
    assert RedactingFilter(redactor).filter(record)
    text = logging.Formatter("%(message)s").format(record)
    assert text.startswith("got ***\n") and "ValueError: bad ***" in text and SECRET not in text
