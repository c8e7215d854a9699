import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from agentcompass.contracts import DatasetError, RunResult, StageFailure, UsageError
from agentcompass.plugins.benchmarks.qa import QuestionAnswering, QuestionAnsweringParams


class Questions:
    """A data set in a file, and the benchmark on it."""

    def __init__(self, path: Path, driver: Callable[..., Any]) -> None:
        self.path = path
        self._driver = driver

    def write(self, *rows: dict[str, Any] | str) -> None:
        lines = [row if isinstance(row, str) else json.dumps(row, ensure_ascii=False) for row in rows]
        self.path.write_text("\n".join(lines) + "\n", encoding="utf-8")

    def drive(self, **params: Any) -> Any:
        return self._driver(QuestionAnswering(QuestionAnsweringParams(path=str(self.path), **params)))

    async def judge(self, answer: Any, expected: Any, **params: Any) -> RunResult:
        self.write({"id": "q", "question": "?", "answer": expected})
        driven = self.drive(**params)
        [task] = await driven.load()
        result: RunResult = await driven.judge(task, answer)
        return result

    async def error(self, *rows: dict[str, Any] | str, **params: Any) -> str:
        self.write(*rows)
        with pytest.raises(DatasetError) as caught:
            await self.drive(**params).load()
        return str(caught.value).replace(str(self.path), "FILE")


@pytest.fixture
def questions(tmp_path: Path, driver: Callable[..., Any]) -> Questions:
    return Questions(tmp_path / "questions.jsonl", driver)


async def test_rows_become_tasks(questions: Questions) -> None:
    questions.write(
        {"id": "q1", "question": "Capital of France?", "answer": "Paris", "category": "geography"},
        {"id": "q2", "question": "Half?", "answer": [0.5, "1/2"], "scorer": "numeric"},
    )
    first, second = await questions.drive().load()
    assert (first.task_id, first.question, first.category) == ("q1", "Capital of France?", "geography")
    assert (first.ground_truth, first.metadata) == ("Paris", {"scorer": "normalized"})
    assert (second.ground_truth, second.metadata) == ([0.5, "1/2"], {"scorer": "numeric"})


async def test_sample_ids_and_limit_select(questions: Questions) -> None:
    questions.write(*({"id": name, "question": "?", "answer": "x"} for name in "abcd"))
    assert [task.task_id for task in await questions.drive(limit=2).select()] == ["a", "b"]
    chosen = await questions.drive(sample_ids=["d", "b"]).select()
    assert [task.task_id for task in chosen] == ["b", "d"]
    with pytest.raises(UsageError, match="benchmark 'qa' has no task 'x'"):
        await questions.drive(sample_ids=["x"]).select()


async def test_the_model_gets_question_and_system_prompt(questions: Questions) -> None:
    questions.write({"id": "q", "question": "Why?", "answer": "Because"})
    driven = questions.drive(system_prompt="Be brief.")
    [task] = await driven.load()
    prepared = await driven.prepare(task)
    assert (prepared.input.prompt, prepared.input.system_prompt) == ("Why?", "Be brief.")
    assert prepared.metadata == {"oracle_answer": "Because"}


@pytest.mark.parametrize(
    ("scorer", "answer", "expected", "correct"),
    [
        ("exact", "Paris", "Paris", True),
        ("exact", "paris", "Paris", False),
        ("normalized", "the PARIS!", "Paris", True),
        ("normalized", "Lyon", ["Paris", "Lyon"], True),
        ("normalized", 4, 4.0, True),
        ("normalized", None, "Paris", False),
        ("normalized", "", "Paris", False),
        ("numeric", "It is 1,000.", 1000, True),
        ("numeric", 1000, [7, "1000"], True),
        ("numeric", "none", 0, False),
        ("regex", "The colour is grey.", "gr[ae]y", True),
        ("regex", "The colour is green.", "gr[ae]y", False),
        ("regex", None, ".*", False),
    ],
)
async def test_judging(questions: Questions, scorer: str, answer: Any, expected: Any, correct: bool) -> None:
    result = await questions.judge(answer, expected, scorer=scorer)
    assert result.metrics == {"correct": correct}
    assert result.final_answer == answer


async def test_a_row_may_have_its_own_scorer(questions: Questions) -> None:
    questions.write({"id": "q", "question": "?", "answer": "Paris", "scorer": "exact"})
    driven = questions.drive(scorer="normalized")
    [task] = await driven.load()
    assert (await driven.judge(task, "paris")).metrics == {"correct": False}


async def test_the_last_match_of_the_answer_pattern_is_judged(questions: Questions) -> None:
    text = "ANSWER: Lyon\nNo, wait.\nANSWER: Paris\n"
    result = await questions.judge(text, "Paris", answer_pattern="ANSWER: (.*)")
    assert result.metrics == {"correct": True}
    assert result.meta.benchmark == {"scorer": "normalized", "extracted_answer": "Paris", "matched": "Paris"}


async def test_an_answer_without_the_pattern_is_wrong(questions: Questions) -> None:
    result = await questions.judge("Paris", "Paris", answer_pattern="ANSWER: (.*)")
    assert result.metrics == {"correct": False}
    assert result.meta.benchmark == {"scorer": "normalized", "extracted_answer": None, "matched": None}


async def test_tolerances_apply_to_numbers(questions: Questions) -> None:
    assert (await questions.judge("3.1416", 3.14159265, scorer="numeric")).metrics == {"correct": False}
    close = await questions.judge("3.1416", 3.14159265, scorer="numeric", relative_tolerance=1e-4)
    assert close.metrics == {"correct": True}


async def test_a_pattern_that_takes_too_long_is_not_scored(
    questions: Questions, monkeypatch: pytest.MonkeyPatch
) -> None:
    from agentcompass.plugins.benchmarks import safe_regex

    monkeypatch.setitem(safe_regex.last_matches.__kwdefaults__, "limit_seconds", 0.3)
    with pytest.raises(StageFailure) as caught:
        await questions.judge("a" * 40 + "b", "(a+)+$", scorer="regex")
    assert caught.value.issue.severity == "fatal"
    assert caught.value.issue.code == "evaluation_failed"


@pytest.mark.parametrize(
    ("scorer", "expected", "pattern"),
    [
        ("exact", "Paris", None),
        ("normalized", ["Paris", "Lyon"], None),
        ("numeric", 0.25, None),
        ("regex", r"^3\.14", None),
        ("normalized", "Paris", "ANSWER: (.*)"),
        ("numeric", -12, r"\\boxed\{(.*)\}"),
    ],
)
async def test_the_oracle_answer_is_right(
    questions: Questions, scorer: str, expected: Any, pattern: str | None
) -> None:
    questions.write({"id": "q", "question": "?", "answer": expected})
    driven = questions.drive(scorer=scorer, answer_pattern=pattern)
    [task] = await driven.load()
    oracle = (await driven.prepare(task)).metadata["oracle_answer"]
    assert (await driven.judge(task, oracle)).metrics == {"correct": True}


async def test_no_oracle_answer_is_invented_for_an_open_pattern(questions: Questions) -> None:
    questions.write({"id": "q", "question": "?", "answer": "gr[ae]y", "scorer": "regex"})
    driven = questions.drive()
    [task] = await driven.load()
    assert (await driven.prepare(task)).metadata == {}


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"id": "", "question": "?", "answer": "x"}, "FILE:2: 'id': String should have at least 1 character, got ''"),
        ({"id": " a", "question": "?", "answer": "x"}, "FILE:2: 'id': must have no white space around it and not be blank, got ' a'"),
        ({"id": 5, "question": "?", "answer": "x"}, "FILE:2: 'id': Input should be a valid string, got 5"),
        ({"id": "a", "qestion": "?", "question": "?", "answer": "x"}, "FILE:2: unknown key 'qestion'; did you mean 'question'?"),
        ({"id": "a", "answer": "x"}, "FILE:2: 'question' is required"),
        ({"id": "a", "question": "?"}, "FILE:2: 'answer' is required"),
        ({"id": "a", "question": "?", "answer": []}, "FILE:2: 'answer': must be a non-empty string, a number, or a non-empty list of these"),
        ({"id": "a", "question": "?", "answer": " "}, "FILE:2: 'answer': must be a non-empty string, a number, or a non-empty list of these, got ' '"),
        ({"id": "a", "question": "?", "answer": True}, "FILE:2: 'answer': must be a non-empty string, a number, or a non-empty list of these, got True"),
        ({"id": "a", "question": "?", "answer": {"x": 1}}, "FILE:2: 'answer': must be a non-empty string, a number, or a non-empty list of these"),
        ({"id": "a", "question": "?", "answer": "many", "scorer": "numeric"}, "FILE:2: 'answer' 'many' has no number, but its scorer is 'numeric'"),
        ({"id": "a", "question": "?", "answer": "(", "scorer": "regex"}, "FILE:2: 'answer' '(' is not a regular expression: missing ), unterminated subpattern at position 0"),
        ({"id": "a", "question": "?", "answer": "x", "scorer": "fuzzy"}, "FILE:2: 'scorer': Input should be 'exact', 'normalized', 'numeric' or 'regex', got 'fuzzy'"),
        ({"id": "ok", "question": "?", "answer": "x"}, "FILE:2: id 'ok' is already used at FILE:1"),
    ],
)  # fmt: skip
async def test_a_wrong_row_is_reported_with_its_line(
    questions: Questions, row: dict[str, Any], message: str
) -> None:
    good = {"id": "ok", "question": "?", "answer": "x"}
    assert await questions.error(good, row) == message


async def test_malformed_json_is_reported_with_its_line(questions: Questions) -> None:
    message = await questions.error({"id": "ok", "question": "?", "answer": "x"}, "{'id': 1}")
    assert message.startswith("FILE:2: malformed JSON at column 2: ")


@pytest.mark.parametrize(
    ("pattern", "problem"),
    [
        ("ANSWER: .*", "must have exactly one group for the answer, 'ANSWER: .*' has 0"),
        ("(a)(b)", "must have exactly one group for the answer, '(a)(b)' has 2"),
        ("(", "'(' is not a regular expression: missing ), unterminated subpattern at position 0"),
    ],
)
def test_a_wrong_answer_pattern_is_refused(pattern: str, problem: str) -> None:
    with pytest.raises(ValidationError) as caught:
        QuestionAnsweringParams(path="x", answer_pattern=pattern)
    assert caught.value.errors()[0]["msg"] == f"Value error, {problem}"
