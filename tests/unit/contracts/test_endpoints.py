"""What a launch decides when an endpoint refuses."""

from __future__ import annotations

import pytest

from agentcompass.contracts.endpoints import (
    Breakers,
    EndpointState,
    EndpointView,
    Refusal,
    RequestEndpoints,
)

REFUSAL = Refusal(request="one", attempt="t/a1", message="401")
KEY = "env:KEY"


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
