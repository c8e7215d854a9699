import time

import pytest

from agentcompass.plugins.benchmarks.literal_patterns import frame_answer, literal_text
from agentcompass.plugins.benchmarks.safe_regex import RegexTimeoutError, last_matches


async def test_the_last_match_of_each_pattern_with_its_groups() -> None:
    found = await last_matches([r"(\d)(x)?", "no"], "1x 2")
    assert found == [["2", "2", None], None]


async def test_text_and_patterns_may_be_any_unicode() -> None:
    assert await last_matches(["ANTWORT: (.*)"], "ANTWORT: größer 😀\n") == [
        ["ANTWORT: größer 😀", "größer 😀"]
    ]


async def test_a_catastrophic_pattern_is_ended() -> None:
    started = time.monotonic()
    with pytest.raises(RegexTimeoutError, match=r"'\(a\+\)\+\$' took longer than 0\.5 s"):
        await last_matches(["(a+)+$"], "a" * 40 + "b", limit_seconds=0.5)
    assert time.monotonic() - started < 5


async def test_only_the_end_of_a_long_text_is_searched() -> None:
    assert await last_matches(["first", "last"], "first" + " " * 20_000 + "last") == [None, ["last"]]


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("ANSWER: (.*)", "ANSWER: 4"),
        (r"(?i)answer:\s*(.+)$", "answer:4"),
        (r"<answer>\s*(.*?)\s*</answer>", "<answer>4</answer>"),
        (r"\\boxed\{([^}]*)\}", r"\boxed{4}"),
        (r"^#### (-?\d+)", "#### 4"),
        (r"is\s+(\d+)\.", "is 4."),
    ],
)
async def test_a_framed_answer_is_found_by_its_pattern(pattern: str, text: str) -> None:
    assert frame_answer(pattern, "4") == text
    [found] = await last_matches([pattern], text)
    assert found == [text, "4"]


@pytest.mark.parametrize("pattern", ["(?:a|b) (.*)", "x* (.*)", ".(.*)", r"\d (.*)", "((a)b)"])
def test_a_pattern_with_more_than_literal_text_gives_no_frame(pattern: str) -> None:
    assert frame_answer(pattern, "4") is None


@pytest.mark.parametrize(
    ("pattern", "text"), [("Paris", "Paris"), (r"\b3\.14\b", "3.14"), ("a|b", None), ("ab?", None), ("", "")]
)
def test_the_literal_text_of_a_pattern(pattern: str, text: str | None) -> None:
    assert literal_text(pattern) == text
