"""``tests/README.md`` says which test holds which rule; every test that it names exists."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).parents[1]
NAMED = re.compile(r"`((?:unit|integration|durability|workflow)/[\w/]+\.py)(?:::(\w+))?`")


def test_every_test_that_the_index_names_exists() -> None:
    named = NAMED.findall((TESTS / "README.md").read_text(encoding="utf-8"))
    assert len(named) > 70
    missing = []
    for file, test in named:
        path = TESTS / file
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        if not text or (test and f"def {test}(" not in text):
            missing.append(f"{file}::{test}")
    assert missing == []


def test_every_row_of_the_index_names_a_test() -> None:
    lines = (TESTS / "README.md").read_text(encoding="utf-8").splitlines()
    rows = [
        line
        for line in lines
        if line.startswith("| ") and not line.startswith(("| ---", "| rule", "| what", "| where"))
    ]
    assert [row for row in rows if not NAMED.search(row)] == []
