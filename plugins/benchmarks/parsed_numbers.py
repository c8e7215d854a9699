"""Reading a number out of an answer, and comparing numbers exactly.

Understood: ``1,234.5``, ``1_000``, ``1'000`` and groups set off by a no-break or thin space; ``-``
and U+2212; ``6.02e23``, ``6.02 × 10^23``, ``10²³``; ``50%``; ``3/4``, ``1 3/4``, ``½``,
``\\frac{3}{4}``. Not understood: a decimal comma, number words, ``inf`` and ``nan``.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from decimal import Decimal, DecimalException, localcontext

MAX_TEXT_CHARS = 20_000
"""Only this much of a text is looked at, from its end."""
_PRECISION = 60
_MAX_EXPONENT = 6

_SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻", "0123456789+-")
_GROUP_MARKS = ",_'’\u00a0\u2009\u202f"
_UNSIGNED = rf"(?:\d{{1,3}}(?:[{_GROUP_MARKS}]\d{{3}})+(?!\d)|\d+)(?:\.\d+)?|\.\d+"
_POWER = r"[ ]?(?:[×x*·]|\\times|\\cdot)[ ]?10\^\{?(?P<power>[+-]?\d+)\}?"
_NUMBER = re.compile(
    rf"(?<![\w^.])(?P<sign>[+-])?[$€£]?(?:"
    rf"(?:(?P<tex_whole>\d+)[ ]?)?\\[dt]?frac\{{(?P<tex_top>\d+)\}}\{{(?P<tex_bottom>\d+)\}}"
    rf"|(?:(?P<whole>\d+)[ ])?(?P<top>\d+)/(?P<bottom>\d+)(?![\d/])"
    rf"|10\^\{{?(?P<bare_power>[+-]?\d+)\}}?"
    rf"|(?P<value>{_UNSIGNED})(?:[eE](?P<exponent>[+-]?\d+)|{_POWER})?"
    rf")(?P<percent>[ ]?\\?%)?"
)


@dataclass(frozen=True)
class ParsedNumber:
    """A finite number; ``percent`` tells that a percent sign followed (``50%`` has the value 50)."""

    value: Decimal
    percent: bool = False

    @property
    def readings(self) -> tuple[Decimal, ...]:
        """What it may mean beside a number without the sign: ``50%`` is 50 and 0.5."""
        return (self.value, self.value.scaleb(-2)) if self.percent else (self.value,)


def last_number(text: str) -> ParsedNumber | None:
    """The last number in ``text``; ``None`` without one, or when the last one has no finite value."""
    matches = list(_NUMBER.finditer(_plain(text[-MAX_TEXT_CHARS:])))
    if not matches:
        return None
    found = matches[-1]
    try:
        with localcontext(prec=_PRECISION):
            value = _value(found)
    except DecimalException:  # a division by zero
        return None
    if value is None:
        return None
    return ParsedNumber(-value if found["sign"] == "-" else value, found["percent"] is not None)


def numbers_match(
    actual: ParsedNumber, expected: ParsedNumber, *, relative: float = 0.0, absolute: float = 0.0
) -> bool:
    """True when they differ by at most ``max(relative × |expected|, absolute)``.

    If just one of them has a percent sign, both readings of that one count: ``50%`` matches 50 and 0.5.
    """
    if actual.percent == expected.percent:
        pairs = [(actual.value, expected.value)]
    else:
        pairs = [(left, right) for left in actual.readings for right in expected.readings]
    with localcontext(prec=_PRECISION):
        return any(
            abs(left - right) <= max(Decimal(str(relative)) * abs(right), Decimal(str(absolute)))
            for left, right in pairs
        )


def _plain(text: str) -> str:
    """``text`` with one spelling for minus signs, superscripts and vulgar fractions."""
    text = text.replace("\u2212", "-")
    text = re.sub(r"[⁰¹²³⁴-⁹⁺⁻]+", lambda run: "^" + run.group().translate(_SUPERSCRIPTS), text)
    return "".join(_vulgar_fraction(character) for character in text)


def _vulgar_fraction(character: str) -> str:
    if not unicodedata.decomposition(character).startswith("<fraction>"):
        return unicodedata.normalize("NFKC", character) if character.isdecimal() else character
    # A space in front keeps "1½" from becoming "11/2".
    return " " + unicodedata.normalize("NFKC", character).replace("\u2044", "/")


def _value(found: re.Match[str]) -> Decimal | None:
    if found["tex_top"]:
        return Decimal(found["tex_whole"] or 0) + Decimal(found["tex_top"]) / Decimal(found["tex_bottom"])
    if found["top"]:
        return Decimal(found["whole"] or 0) + Decimal(found["top"]) / Decimal(found["bottom"])
    if found["bare_power"]:
        return _scaled(Decimal(1), found["bare_power"])
    digits = re.sub(f"[{_GROUP_MARKS}]", "", found["value"])
    return _scaled(Decimal(digits), found["exponent"] or found["power"] or "0")


def _scaled(value: Decimal, exponent: str) -> Decimal | None:
    # A longer exponent means no quantity, and would overflow the decimal arithmetic.
    return value.scaleb(int(exponent)) if len(exponent.lstrip("+-")) <= _MAX_EXPONENT else None
