"""How a short answer is compared with the accepted ones. Pure functions, each with its rules."""

from __future__ import annotations

import re
import unicodedata
from enum import StrEnum

from .parsed_numbers import last_number, numbers_match

_ARTICLES = frozenset({"a", "an", "the"})
_MEANINGFUL = frozenset("#%&@")
_THOUSANDS = re.compile(r"(?<![\d,.])\d{1,3}(?:,\d{3})+(?![\d,])")
_KEPT_IN_NUMBERS = re.compile(r"(?<=\d)[.,:/](?=\d)|(?<![^\W_])[-\u2212](?=\.?\d)|(?<![^\W_])\.(?=\d)")


class Scorer(StrEnum):
    """The ways of comparing an answer; see the functions of this module."""

    EXACT = "exact"
    NORMALIZED = "normalized"
    NUMERIC = "numeric"
    REGEX = "regex"


def exact_match(answer: str, expected: str) -> bool:
    """The same characters, apart from white space around them."""
    return answer.strip() == expected.strip()


def normalized_match(answer: str, expected: str) -> bool:
    """The same words by :func:`normalize`; never true for an empty answer."""
    found = normalize(answer)
    return bool(found) and found == normalize(expected)


def numeric_match(answer: str, expected: str, *, relative: float = 0.0, absolute: float = 0.0) -> bool:
    """The last number of ``answer`` is the last number of ``expected``, within a tolerance.

    See :mod:`.parsed_numbers` for what is understood and how a percent sign counts.
    """
    found, wanted = last_number(answer), last_number(expected)
    if found is None or wanted is None:
        return False
    return numbers_match(found, wanted, relative=relative, absolute=absolute)


def normalize(text: str) -> str:
    """``text`` in a form in which trivial differences are gone.

    In this order: Unicode NFKC and casefolding; thousands separators out of numbers; dashes and
    slashes become spaces, other punctuation goes; the articles *a*, *an*, *the* go; white space is
    collapsed. After the idea of SQuAD's normalisation (Rajpurkar et al. 2016), but what carries
    meaning stays: a sign or decimal point of a number, ``# % & @``, symbols such as ``+`` and
    ``$``, and an article or punctuation that is all there is (the answer ``A`` of a multiple choice).
    """
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    folded = _THOUSANDS.sub(lambda number: number.group().replace(",", ""), folded).replace("\u2212", "-")
    kept = {match.start() for match in _KEPT_IN_NUMBERS.finditer(folded)}
    plain = "".join(
        character if index in kept else _without_punctuation(character)
        for index, character in enumerate(folded)
    )
    words = plain.split() or folded.split()
    return " ".join([word for word in words if word not in _ARTICLES] or words)


def _without_punctuation(character: str) -> str:
    category = unicodedata.category(character)
    if category == "Pd" or character == "/":
        return " "
    return "" if category.startswith("P") and character not in _MEANINGFUL else character
