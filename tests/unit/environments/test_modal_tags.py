"""Labels as tags that Modal takes whatever is in them."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from agentcompass.plugins.environments.modal.records import decoded, encoded, sandbox_name

TAG = re.compile(r"[A-Za-z0-9._-]{1,63}")
NAMES = st.sampled_from(["agentcompass.label.task", "agentcompass.label.launch", "agentcompass.workdir"])


@given(st.dictionaries(NAMES, st.text(max_size=300)))
def test_any_value_becomes_tags_and_comes_back(values: dict[str, str]) -> None:
    tags = encoded(values)
    assert all(TAG.fullmatch(name) and TAG.fullmatch(value) for name, value in tags.items())
    assert decoded(tags) == values


def test_a_value_that_is_a_tag_stays_readable() -> None:
    values = {"agentcompass.label.launch": "humaneval-oracle-none-20261130-082222-dc0e"}
    assert encoded(values) == values


def test_tags_of_somebody_else_are_left_as_they_are() -> None:
    assert decoded({"team": "_not base64!", "a.1": "x"}) == {"team": "_not base64!", "a.1": "x"}


@given(st.text(min_size=1, max_size=200).filter(lambda text: "\0" not in text))
def test_any_id_gives_a_name_that_modal_takes(identity: str) -> None:
    assert re.fullmatch(r"ac-[A-Za-z0-9._-]{1,61}", sandbox_name(identity))


def test_ids_that_begin_alike_have_names_of_their_own() -> None:
    assert sandbox_name("x" * 63 + "a") != sandbox_name("x" * 63 + "b")
