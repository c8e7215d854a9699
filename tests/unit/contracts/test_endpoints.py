"""Which endpoint and account is which, and what a launch decides when one of them refuses."""

from __future__ import annotations

import pytest

from agentcompass.contracts.endpoints import (
    Breakers,
    EndpointState,
    EndpointView,
    Refusal,
    RequestEndpoints,
    endpoint_id,
)

REFUSAL = Refusal(request="one", attempt="t/a1", message="401")
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


@pytest.mark.parametrize(
    ("code", "endpoint"),
    [
        ("model_authentication", "m"),
        ("model_quota", "m"),
        ("judge_refused", "j"),
        ("secret_unavailable", ""),
        ("broken", ""),
        ("", ""),
    ],
)
def test_a_code_says_who_refused(code: str, endpoint: str) -> None:
    assert RequestEndpoints(model="m", judge="j").refused_with(code) == endpoint


def refused(number: int = 0) -> EndpointState:
    return EndpointState(endpoint="e", number=number, refusal=REFUSAL)


def mended(number: int = 0) -> EndpointState:
    return EndpointState(endpoint="e", number=number)


def test_the_first_refusal_counts_and_its_repetition_changes_nothing() -> None:
    breakers = Breakers()
    assert breakers.hear(refused()) == refused(1)
    assert breakers.hear(refused()) is None
    assert breakers.refusal_for(RequestEndpoints(judge="e")) == REFUSAL
    assert breakers.refusal_for(RequestEndpoints(model="f")) is None


def test_a_refusal_from_before_the_mending_is_old_news_and_one_after_it_counts() -> None:
    breakers = Breakers([refused(1)])
    assert breakers.hear(mended(1)) == mended(2)
    assert breakers.hear(refused(1)) is None
    assert breakers.hear(refused(2)) == refused(3)


def test_mending_what_is_not_refused_changes_nothing() -> None:
    breakers = Breakers()
    assert (breakers.hear(mended()), breakers.close(), breakers.states) == (None, False, [])


def test_closing_mends_all_and_the_numbers_stay_known() -> None:
    breakers = Breakers([refused(1), EndpointState(endpoint="f", number=2)])
    assert breakers.close()
    assert breakers.of(RequestEndpoints(model="e", judge="f")) == [
        mended(2),
        EndpointState(endpoint="f", number=2),
    ]


def test_a_request_reports_a_refusal_once() -> None:
    view = EndpointView([mended(2)])
    assert view.refuse("e", REFUSAL) == refused(2)
    assert view.refuse("e", REFUSAL) is None
    assert view.refusals == [REFUSAL]


def test_a_decision_that_was_overtaken_is_dropped() -> None:
    view = EndpointView()
    view.hear(mended(2))
    view.hear(refused(1))
    assert view.refusals == []


def test_a_request_waits_for_the_launch_to_decide_that_its_endpoint_is_mended() -> None:
    view = EndpointView()
    view.hear(refused(1))
    assert view.mend() == [mended(1)]
    assert view.refusals == [REFUSAL]
    view.hear(mended(2))
    assert view.refusals == []


def test_a_resume_of_the_launch_does_not_mend_what_was_refused_after_it() -> None:
    view = EndpointView()
    view.hear(refused(3))
    view.hear(mended(2))
    assert view.mend([mended(2)]) == []


def test_a_resume_of_the_launch_mends_what_it_had_not_heard_of() -> None:
    view = EndpointView([mended(2)])
    view.refuse("e", REFUSAL)
    assert view.mend([mended(2)]) == [mended(2)]


def test_a_refusal_of_an_unknown_endpoint_ends_with_a_resume_and_is_never_reported() -> None:
    view = EndpointView()
    assert view.refuse("", REFUSAL) is None
    assert (view.refusals, view.mend(), view.refusals) == ([REFUSAL], [], [])
