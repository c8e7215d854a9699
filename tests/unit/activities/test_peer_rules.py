"""What is retried, and how long a stage may take: as AgentCompass 1.0.1 decides on the same inputs.

``tests/data/peer_rules.json`` holds made-up inputs and what AgentCompass 1.0.1 made of them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from planning import planned, request_of, task_of

from agentcompass.contracts import Issue
from agentcompass.contracts.retries import matching_issue

RULES: dict[str, Any] = json.loads((Path(__file__).parents[2] / "data" / "peer_rules.json").read_bytes())


@pytest.mark.parametrize("case", RULES["retries"])
def test_the_same_issues_call_for_a_retry(case: dict[str, Any]) -> None:
    match = matching_issue([Issue.model_validate(issue) for issue in case["issues"]], case["patterns"])
    assert (match[1] if match else None) == case["matched"]


@pytest.mark.parametrize("case", RULES["budgets"])
@pytest.mark.parametrize("stage", ["run", "evaluation"])
def test_a_stage_may_take_as_long(stage: str, case: dict[str, Any]) -> None:
    budget, factor = f"{stage}_timeout_seconds", f"{stage}_timeout_multiplier"
    execution = {
        budget: case["override"],
        factor: case["stage_multiplier"],
        "timeout_multiplier": case["multiplier"],
    }
    plan = planned(request_of(execution=execution), task_of(**{budget: case["default"]}))
    assert getattr(plan.budgets, budget) == pytest.approx(case["expected"])
