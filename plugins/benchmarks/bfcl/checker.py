"""Whether calls are among the accepted ones, by the rules of the leaderboard for Python functions.

- As many calls as expected; with several, in any order, each expected one taking the first that fits.
- The function's name, every required parameter, no parameter that is not accepted.
- A value of the documented type, exactly: an integer stands for a float, but no float for an integer.
  Where the accepted values are of another type than documented (a variable's name, say), that one counts, too.
- Strings, also in lists and dictionaries, without case, spaces and ``, . / - _ * ^``.
- A parameter may be left out where ``""`` is accepted for it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from pydantic import JsonValue

from ....contracts.base import Contract
from .dataset import FunctionDoc, PossibleCall
from .tools import tool_name

_PYTHON_TYPES: dict[str, type] = {
    "string": str,
    "any": str,
    "integer": int,
    "float": float,
    "boolean": bool,
    "array": list,
    "tuple": list,
    "dict": dict,
}
_IGNORED = str.maketrans("", "", " ,./-_*^")


class Call(Contract):
    """A call as the model made it; ``arguments`` that are no object are kept as they came."""

    name: str
    arguments: JsonValue = None


def mismatch(functions: Sequence[FunctionDoc], calls: Sequence[Call], answers: Sequence[PossibleCall]) -> str:
    """Why the calls are not the expected ones; empty when they are."""
    if len(calls) != len(answers):
        return f"{len(calls)} calls instead of {len(answers)}"
    left = list(calls)
    for number, answer in enumerate(answers, start=1):
        reasons: list[str] = []
        for call in left:
            reason = _call_mismatch(functions, call, answer)
            if not reason:
                left.remove(call)
                break
            reasons.append(reason)
        else:
            return f"no call is the expected number {number}: {'; '.join(reasons)}"[:1000]
    return ""


def _call_mismatch(functions: Sequence[FunctionDoc], call: Call, answer: PossibleCall) -> str:
    [(expected, accepted)] = list(answer.items())[:1]
    function = next((item for item in functions if item.name == expected), functions[0])
    if call.name not in (function.name, tool_name(function.name)):
        return f"{call.name!r} is called instead of {function.name!r}"
    if not isinstance(call.arguments, dict):
        return f"the arguments of {call.name!r} are no object"
    documented = function.parameters.get("properties")
    required = function.parameters.get("required")
    assert isinstance(documented, dict)  # checked when it was read
    for name in required if isinstance(required, list) else []:
        if str(name) not in call.arguments:
            return f"the required parameter {name!r} is missing"
    for name, value in call.arguments.items():
        about = documented.get(name)
        if not isinstance(about, dict) or name not in accepted:
            return f"parameter {name!r} is not expected"
        if not _accepts(value, about, accepted[name]):
            return f"parameter {name!r} is {_short(value)}, expected one of {_short(accepted[name])}"
    for name, values in accepted.items():
        if name not in call.arguments and "" not in values:
            return f"parameter {name!r} is missing"
    return ""


def _accepts(value: JsonValue, about: dict[str, JsonValue], accepted: list[JsonValue]) -> bool:
    kind = str(about.get("type"))
    documented = _PYTHON_TYPES.get(kind, str)
    if kind == "float" and type(value) is int:
        value = float(value)
    items = about.get("items")
    inner = (
        _PYTHON_TYPES.get(str(items.get("type")))
        if kind in ("array", "tuple") and isinstance(items, dict)
        else None
    )
    as_accepted = next((type(item) for item in accepted if item != ""), None)
    if type(value) is documented:
        if inner is not None and not _items_fit(value, accepted, inner):
            return False
        other_type = as_accepted is not None and as_accepted is not documented
    elif as_accepted is not None and type(value) is as_accepted:
        other_type = True
    else:
        return False
    if other_type:
        return value in accepted
    if isinstance(value, dict):
        return any(_dict_fits(value, item) for item in accepted)
    if isinstance(value, list):
        if inner is dict:
            return any(_dicts_fit(value, item) for item in accepted)
        return any(isinstance(item, list) and _plain(value) == _plain(item) for item in accepted)
    if isinstance(value, str):
        return any(isinstance(item, str) and _plain(value) == _plain(item) for item in accepted)
    return value in accepted


def _items_fit(value: JsonValue, accepted: list[JsonValue], inner: type) -> bool:
    """Whether all items have the documented type, or that of the items of one accepted value."""
    assert isinstance(value, list)
    for candidate in accepted:
        if not isinstance(candidate, list):
            return True
        other = next((type(item) for item in candidate if item != ""), None)
        if all(type(item) is inner or (other is not None and type(item) is other) for item in value):
            return True
    return False


def _dict_fits(value: dict[str, JsonValue], accepted: JsonValue) -> bool:
    """``accepted`` maps each key to a list of accepted values, with ``""`` where it may be missing."""
    if not isinstance(accepted, dict):
        return False
    for key, item in value.items():
        choices = accepted.get(key)
        if not isinstance(choices, list) or _plain(item) not in [_plain(choice) for choice in choices]:
            return False
    return all(
        key in value or (isinstance(choices, list) and "" in choices) for key, choices in accepted.items()
    )


def _dicts_fit(values: list[JsonValue], accepted: JsonValue) -> bool:
    return (
        isinstance(accepted, list)
        and len(values) == len(accepted)
        and all(
            isinstance(value, dict) and _dict_fits(value, item)
            for value, item in zip(values, accepted, strict=True)
        )
    )


def _plain(value: JsonValue) -> JsonValue:
    """Strings, and those directly in a list, in a form in which trivial differences are gone."""
    if isinstance(value, str):
        return value.translate(_IGNORED).lower().replace("'", '"')
    if isinstance(value, list):
        return [_plain(item) if isinstance(item, str) else item for item in value]
    return value


def _short(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)[:200]
