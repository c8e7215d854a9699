"""The published JSON Schemas follow the models."""

import json

import pytest

from agentcompass.activities.store.schemas import DIRECTORY, SCHEMAS, render


@pytest.mark.parametrize("name", sorted(SCHEMAS))
def test_committed_schema_is_current(name: str) -> None:
    path = DIRECTORY / f"{name}.schema.json"
    hint = "run: python -m agentcompass.activities.store.schemas"
    assert path.exists() and path.read_bytes() == render(name), hint


def test_no_schema_is_left_over() -> None:
    assert sorted(path.name for path in DIRECTORY.iterdir()) == sorted(
        f"{name}.schema.json" for name in SCHEMAS
    )


def test_task_schema_requires_issues_and_refuses_unknown_fields() -> None:
    schema = json.loads(render("task"))
    attempt = schema["$defs"]["AttemptRecord"]
    assert "issues" in attempt["required"] and attempt["additionalProperties"] is False
