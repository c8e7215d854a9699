"""Which endpoint and account is which."""

from __future__ import annotations

import pytest

from agentcompass.plugins.models.endpoint import endpoint_id

KEY = "env:KEY"


@pytest.mark.parametrize(
    "url",
    [
        "https://api.example.org",
        "https://api.example.org/",
        "https://api.example.org/v1/",
        "HTTPS://API.Example.org:443/v1",
        "https://api.example.org./v1",
        "https://api.example.org/v1/chat/completions",
        "https://api.example.org/v1/responses",
        "https://api.example.org/v1/messages/",
        " https://api.example.org/v1 ",
    ],
)
def test_ways_to_write_one_endpoint_are_one(url: str) -> None:
    assert endpoint_id(url, KEY) == endpoint_id("https://api.example.org/v1", KEY)


@pytest.mark.parametrize(
    ("url", "account"),
    [
        ("http://api.example.org/v1", KEY),
        ("https://api.example.org:8443/v1", KEY),
        ("https://eu.api.example.org/v1", KEY),
        ("https://api.example.org/team-a/v1", KEY),
        ("https://api.example.org/v1?tenant=a", KEY),
        ("https://api.example.org/v1", "env:OTHER"),
        ("https://api.example.org/v1", "file:/run/secrets/key"),
        ("https://api.example.org/v1", ""),
    ],
)
def test_another_address_or_account_is_another_endpoint(url: str, account: str) -> None:
    assert endpoint_id(url, account) != endpoint_id("https://api.example.org/v1", KEY)


def test_parts_that_run_into_each_other_do_not_make_two_endpoints_one() -> None:
    assert endpoint_id("https://h/a?b", "c") != endpoint_id("https://h/a", "?bc")


def test_the_name_shows_the_host_and_nothing_else() -> None:
    name = endpoint_id("https://api.example.org/v1?key=query-secret-1", "sealed:k1:c2VjcmV0")
    host, _, digest = name.partition("#")
    assert (host, len(digest)) == ("api.example.org", 16)
    assert int(digest, 16) > 0


def test_the_name_is_the_same_in_every_process_and_version() -> None:
    assert endpoint_id("http://127.0.0.1:8000/v1", "env:KEY") == "127.0.0.1#f4a900d969c0b091"


@pytest.mark.parametrize(
    "url", ["", "nonsense", "http://", "https://[::1]:8000/v1", "http://ü.example/v1", "http://h:99999/"]
)
def test_every_address_has_a_name(url: str) -> None:
    assert "#" in endpoint_id(url, KEY)
