"""Whatever a disk or a hand did to a run directory, its readers show what is left or say what is wrong."""

from __future__ import annotations

import random
import re
import shutil
from pathlib import Path

import pytest
from page_reader import read_page
from recorded_runs import scored, tasks_of, write_run

from agentcompass.activities.html_report import write_run_report
from agentcompass.activities.metrics.comparison import compare_runs
from agentcompass.contracts.errors import AgentCompassError

VALUES = [b"null", b"1e999", b"-1", b'"\\ud800"', b"[]", b"{}", b"true", b"9" * 400, b'"x"']
DAMAGES = 30


def damage(path: Path, chance: random.Random) -> None:
    """Cut the file, change a byte, or put another value in the place of one."""
    data = bytearray(path.read_bytes())
    kind = chance.random()
    if kind < 0.3:
        del data[chance.randrange(len(data)) :]
    elif kind < 0.5:
        data[chance.randrange(len(data))] = chance.randrange(256)
    else:
        found = list(re.finditer(rb'(?<=: )("[^"]*"|[\d.]+|true|false|null|\{\}|\[\])', bytes(data)))
        if found:
            place = chance.choice(found)
            data[place.start() : place.end()] = chance.choice(VALUES)
    path.write_bytes(bytes(data))


def test_a_damaged_run_is_shown_or_refused_in_words(tmp_path: Path) -> None:
    records = {f"q{number}": [scored(number % 2 == 0, answer="42")] for number in range(3)}
    write_run(tmp_path / "whole", records, tasks=tasks_of(list(records), {"q1": "math"}))
    chance = random.Random(20_261_130)
    for number in range(DAMAGES):
        run_dir = tmp_path / f"run{number}"
        shutil.copytree(tmp_path / "whole", run_dir)
        files = sorted(path for path in run_dir.rglob("*") if path.suffix in (".json", ".jsonl", ".index"))
        for path in chance.sample(files, chance.randint(1, 3)):
            if path.stat().st_size:
                damage(path, chance)
        assert read_page(write_run_report(run_dir)).rows
        try:
            compare_runs(tmp_path / "whole", run_dir)
        except AgentCompassError as error:
            assert "\n" not in str(error)  # one clear line
        except Exception as error:  # the test's own words say which damage did it
            pytest.fail(f"damage {number}: {type(error).__name__}: {error}")
