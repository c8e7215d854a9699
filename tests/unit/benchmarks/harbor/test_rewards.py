"""Rewards as verifiers write them."""

import pytest

from agentcompass.plugins.benchmarks.harbor.rewards import UnreadableRewardError, parse_json, parse_text


@pytest.mark.parametrize(
    ("data", "reward"),
    [
        (b'{"reward": 1}', 1.0),
        (b'{"reward": true, "other": 0.25}', 1.0),
        (b'{"accuracy": 0.5}', 0.5),
        (b'{"reward": -3.5}', -3.5),
    ],
)
def test_a_flat_object_of_numbers_is_a_reward(data: bytes, reward: float) -> None:
    assert parse_json(data).reward == reward


@pytest.mark.parametrize(
    "data",
    [
        *(b"", b"{}", b"[1]", b"1", b'{"reward": "1"}', b'{"reward": NaN}', b'{"reward": Infinity}'),
        *(b'{"reward": null}', b'{"reward": {"x": 1}}', b'{"a": 1, "b": 2}', b"\xff", b"[" * 100_000),
        b'{"reward": 1' + b"0" * 400 + b"}",
    ],
)
def test_anything_else_is_none(data: bytes) -> None:
    with pytest.raises(UnreadableRewardError):
        parse_json(data)


def test_a_text_is_one_finite_number() -> None:
    assert parse_text(b" 0.75\n").reward == 0.75
    for data in (b"", b"nan", b"inf", b"1 2", b"yes", b"\xff"):
        with pytest.raises(UnreadableRewardError):
            parse_text(data)
