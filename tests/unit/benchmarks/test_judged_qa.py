"""Questions that a model judges, with the real HTTP client against a server on loopback."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from model_answers import Reply
from model_server import ModelServer

from agentcompass.contracts import DatasetError, EnvironmentSession, StageFailure
from agentcompass.plugins.benchmarks.judged_qa import JudgedQuestions, JudgedQuestionsParams

DATA = Path(__file__).parents[2] / "data" / "judged_qa" / "metadata.jsonl"


@pytest.fixture
async def server() -> AsyncIterator[ModelServer]:
    async with ModelServer() as running:
        running.default = Reply("Another city.\nVERDICT: INCORRECT")
        running.script("Paris, of course", Reply("The same.\nVERDICT: CORRECT"))
        yield running


def benchmark(server: ModelServer, path: Path = DATA, **params: Any) -> JudgedQuestions:
    judge = {"id": "judge", "base_url": server.base_url, "params": {"max_attempts": 1}}
    return JudgedQuestions(
        JudgedQuestionsParams.model_validate({"path": str(path), "judge": judge, **params})
    )


async def test_the_files_of_gaia_are_read_as_they_are(
    server: ModelServer, driver: Callable[..., Any]
) -> None:
    capital, total, river = await driver(benchmark(server)).load()
    assert (capital.task_id, capital.category, capital.ground_truth) == ("capital", "1", "Paris")
    assert total.metadata["file_name"] == "amounts.csv"
    assert (river.question, river.category) == ("Which river flows through Cologne?", "geography")


async def test_the_file_of_a_question_lies_in_the_work_directory(
    server: ModelServer, driver: Callable[..., Any], host: EnvironmentSession
) -> None:
    used = driver(benchmark(server), host)
    [_, total, _] = await used.load()
    prepared = await used.prepare(total)
    assert b"b,25" in await host.read("amounts.csv")
    assert prepared.input.prompt.endswith(f"it is {host.workdir}/amounts.csv.")


async def test_the_judge_decides_and_its_usage_is_recorded_apart(
    server: ModelServer, driver: Callable[..., Any], host: EnvironmentSession
) -> None:
    used = driver(benchmark(server), host)
    [capital, *_] = await used.load()
    right = await used.judge(capital, "Paris, of course")
    judged = right.meta.benchmark["judge"]
    assert right.metrics == {"correct": True}
    assert judged["answer"] == "The same.\nVERDICT: CORRECT"
    assert judged["usage"]["prompt_tokens"] > 0
    [call] = server.calls
    assert "Paris, of course" in call.prompt and "What is the capital of France?" in call.prompt


async def test_no_answer_is_wrong_without_asking(
    server: ModelServer, driver: Callable[..., Any], host: EnvironmentSession
) -> None:
    used = driver(benchmark(server), host)
    [capital, *_] = await used.load()
    assert (await used.judge(capital, "  ")).metrics == {"correct": False}
    assert server.calls == []


async def test_a_judge_without_a_verdict_or_in_trouble_gives_no_score(
    server: ModelServer, driver: Callable[..., Any], host: EnvironmentSession
) -> None:
    used = driver(benchmark(server), host)
    [capital, *_] = await used.load()
    server.script("nonsense", Reply("Hm."))
    with pytest.raises(StageFailure) as caught:
        await used.judge(capital, "nonsense")
    assert caught.value.issue.code == "judge_failed"
    server.script("trouble", Reply(status=500))
    used.context = used.context.restarted()
    used.context._checkpoint = None
    with pytest.raises(StageFailure) as caught:
        await used.judge(capital, "trouble")
    assert caught.value.issue.phase == "evaluate"


async def test_a_hanging_judge_is_ended_at_its_own_limit(
    server: ModelServer, driver: Callable[..., Any], host: EnvironmentSession
) -> None:
    used = driver(benchmark(server, judge_timeout_seconds=0.3), host)
    [capital, *_] = await used.load()
    server.script("slow", Reply(hang=True))
    with pytest.raises(StageFailure, match=r"no answer within 0\.3 s"):
        await used.judge(capital, "slow")


@pytest.mark.parametrize("name", ["../x", "/etc/passwd", "link", "missing"])
async def test_files_outside_of_the_data_set_are_refused(
    server: ModelServer, driver: Callable[..., Any], tmp_path: Path, name: str
) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    shutil.copy(DATA, tmp_path / "x")
    (folder / "link").symlink_to("/etc/passwd")
    row = f'{{"id": "a", "question": "q", "answer": "a", "file_name": "{name}"}}\n'
    (folder / "rows.jsonl").write_text(row)
    with pytest.raises(DatasetError, match=r"rows.jsonl:1"):
        await driver(benchmark(server, folder / "rows.jsonl")).load()
