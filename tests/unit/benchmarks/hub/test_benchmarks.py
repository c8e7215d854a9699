"""Benchmarks whose rows come from a hub."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fake_hub import TOKEN, FakeHub, Repository

from agentcompass.contracts import DatasetError, EnvironmentSession
from agentcompass.plugins.benchmarks.judged_qa import JudgedQuestions, JudgedQuestionsParams
from agentcompass.plugins.benchmarks.swebench_verified import SweBenchVerified, SweBenchVerifiedParams

DATA = Path(__file__).parents[3] / "data"
GAIA_CARD = b"""---
configs:
- config_name: 2023_all
  data_files:
  - {split: validation, path: 2023/validation/metadata.parquet}
---
"""
JUDGE = {"id": "judge", "base_url": "http://127.0.0.1:9"}


def parquet(path: Path, rows: list[dict[str, Any]]) -> bytes:
    arrow = pytest.importorskip("pyarrow", reason="Parquet files need the extra 'parquet'")
    importlib_parquet = pytest.importorskip("pyarrow.parquet")
    importlib_parquet.write_table(arrow.Table.from_pylist(rows), path)
    return path.read_bytes()


def row(**changes: Any) -> dict[str, Any]:
    [line] = (DATA / "swebench" / "fixture.jsonl").read_text().splitlines()
    return {**json.loads(line), **changes}


async def test_swe_bench_comes_from_its_own_set_unless_another_is_named(
    hub: FakeHub, driver: Callable[..., Any], tmp_path: Path
) -> None:
    pytest.importorskip("swebench", reason="grading needs the extra 'swebench', which is large")
    official = row(instance_id="astropy__astropy-12907", setup_script="", difficulty=None)
    data = parquet(tmp_path / "rows.parquet", [official, row(difficulty="15 min")])
    path = "data/test-00000-of-00001.parquet"
    hub.repositories["SWE-bench/SWE-bench_Verified"] = Repository({path: data}, large=(path,))
    used = driver(SweBenchVerified(SweBenchVerifiedParams()))
    used.request.environment.id = "docker"
    first, second = await used.load()
    assert first.image == "swebench/sweb.eval.x86_64.astropy_1776_astropy-12907:latest"
    assert (second.image, second.category) == (None, official["repo"])


async def test_the_rows_of_swebench_4_are_refused_with_the_set_to_take(
    hub: FakeHub, driver: Callable[..., Any]
) -> None:
    pytest.importorskip("swebench", reason="grading needs the extra 'swebench', which is large")
    former = {name: value for name, value in row(test_patch="x").items() if name != "eval_script"}
    hub.repositories["princeton-nlp/SWE-bench_Verified"] = Repository(
        {"test.jsonl": json.dumps(former).encode()}
    )
    params = SweBenchVerifiedParams(dataset="princeton-nlp/SWE-bench_Verified")
    with pytest.raises(DatasetError, match=r"a row for swebench 4.*SWE-bench/SWE-bench_Verified"):
        await driver(SweBenchVerified(params)).load()


async def test_gaia_is_read_with_its_files_once_its_terms_are_accepted(
    hub: FakeHub,
    driver: Callable[..., Any],
    host: EnvironmentSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = [
        {"task_id": "a", "Question": "How many?", "Level": "1", "Final answer": "3", "file_name": "a.csv"},
        {"task_id": "b", "Question": "Why?", "Level": "2", "Final answer": "So.", "file_name": "b.bin"},
        {"task_id": "c", "Question": "Who?", "Level": "2", "Final answer": "She.", "file_name": None},
    ]
    folder = "2023/validation"
    files = {
        "README.md": GAIA_CARD,
        f"{folder}/metadata.parquet": parquet(tmp_path / "rows.parquet", asked),
        f"{folder}/a.csv": b"1,2,3",
        f"{folder}/b.bin": b"\0\1",
    }
    hub.repositories["gaia-benchmark/GAIA"] = Repository(files, large=(f"{folder}/b.bin",), gated=True)
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    params = {"dataset": "gaia-benchmark/GAIA", "config": "2023_all", "judge": JUDGE}
    used = driver(JudgedQuestions(JudgedQuestionsParams.model_validate(params)), host)
    first, second, third = await used.load()
    assert (first.category, third.metadata) == ("1", {})
    assert not any("b.bin" in request for request in hub.requests)  # the hub has told its digest
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    await used.prepare(first)
    assert await host.read("a.csv") == b"1,2,3"
    monkeypatch.delenv("HF_HUB_OFFLINE")
    await used.prepare(second)
    assert await host.read("b.bin") == b"\0\1"


async def test_a_worker_with_an_older_copy_fetches_the_file_that_the_rows_were_loaded_with(
    hub: FakeHub,
    driver: Callable[..., Any],
    host: EnvironmentSession,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    row = {"task_id": "a", "Question": "How many?", "Final answer": "3", "file_name": "a.csv"}
    files = {"validation/rows.jsonl": json.dumps(row).encode(), "validation/a.csv": b"old"}
    hub.repositories["owner/set"] = Repository(files)
    used = driver(
        JudgedQuestions(JudgedQuestionsParams.model_validate({"dataset": "owner/set", "judge": JUDGE})), host
    )
    await used.prepare((await used.load())[0])
    files["validation/a.csv"] = b"new"
    monkeypatch.setenv("AGENTCOMPASS_HOME", str(tmp_path / "other"))
    [task] = await used.load()
    monkeypatch.setenv("AGENTCOMPASS_HOME", str(tmp_path / "home"))
    await used.prepare(task)
    assert await host.read("a.csv") == b"new"


def test_a_file_or_a_set_has_to_be_named() -> None:
    with pytest.raises(ValueError, match="give path, a file, or dataset"):
        JudgedQuestionsParams.model_validate({"judge": JUDGE})
    with pytest.raises(ValueError, match="not both"):
        SweBenchVerifiedParams(path="x.jsonl", dataset="owner/set")
