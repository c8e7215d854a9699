"""What a verifier leaves: ``reward.json``, else ``reward.txt``."""

from __future__ import annotations

import json
import math

from pydantic import JsonValue

from ....contracts.base import Contract

LARGEST_REWARD_BYTES = 256 * 1024
_MOST_NAMES = 100


class UnreadableRewardError(Exception):
    """The verifier wrote something that is no score; the message says what is wrong with it."""


class Rewards(Contract):
    """The primary reward and all others by name."""

    reward: float
    all: dict[str, float]


def parse_json(data: bytes) -> Rewards:
    """A flat object of names to finite numbers, ``true`` counts as 1. Raises ``UnreadableRewardError``.

    The primary one is called ``reward``; the only one of another name stands for it.
    """
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise UnreadableRewardError(f"reward.json is not JSON: {error}"[:300]) from None
    if not isinstance(value, dict) or not value:
        raise UnreadableRewardError("reward.json is not an object with at least one reward")
    if len(value) > _MOST_NAMES:
        raise UnreadableRewardError(f"reward.json has more than {_MOST_NAMES} rewards")
    found = {str(name): _number(f"reward.json: {name!r}"[:200], item) for name, item in value.items()}
    if "reward" not in found and len(found) > 1:
        raise UnreadableRewardError("reward.json has several rewards, and none is called 'reward'")
    return Rewards(reward=found.get("reward", next(iter(found.values()))), all=found)


def parse_text(data: bytes) -> Rewards:
    """One finite number. Raises ``UnreadableRewardError``."""
    text = data.decode("utf-8", "replace").strip()
    try:
        value = float(text)
    except ValueError:
        raise UnreadableRewardError(f"reward.txt is not a number: {text[:80]!r}") from None
    number = _number("reward.txt", value)
    return Rewards(reward=number, all={"reward": number})


def _number(what: str, value: JsonValue) -> float:
    if not isinstance(value, int | float):
        raise UnreadableRewardError(f"{what} is not a number")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise UnreadableRewardError(f"{what} is not a finite number")
    return number
