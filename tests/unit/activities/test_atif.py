"""Our trajectories as ATIF: the rules of the format hold whatever an agent or an extension wrote."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from agentcompass.activities.export.atif import to_atif
from agentcompass.contracts import Observation, ToolCall, Trajectory, TrajectoryStep, Usage
from agentcompass.contracts.atif import AtifTrajectory


def convert(*steps: TrajectoryStep, **extra: Any) -> AtifTrajectory:
    found = to_atif(
        Trajectory(steps=list(steps), extra=extra), session_id="s", agent="a", version="1", model="m"
    )
    assert found is not None
    return AtifTrajectory.model_validate(found.model_dump(mode="json", exclude_none=True))


def agent_step(number: int = 1, **fields: Any) -> TrajectoryStep:
    return TrajectoryStep(step_id=number, source="agent", **fields)


def test_a_turn_with_a_tool_call() -> None:
    step = agent_step(
        2,
        timestamp=1_700_000_000.5,
        message="I look.",
        reasoning="hm",
        tool_calls=[ToolCall(id="c1", name="bash", arguments={"command": "ls"})],
        observations=[Observation(tool_call_id="c1", content="a.txt")],
        model="m-2026",
        usage=Usage(prompt_tokens=10, completion_tokens=5, cached_tokens=4, reasoning_tokens=3),
        cost_usd=0.25,
        stop_reason="tool_calls",
    )
    found = convert(TrajectoryStep(step_id=1, source="user", message="Do it."), step)
    assert found.model_dump(mode="json", exclude_none=True) == {
        "schema_version": "ATIF-v1.8",
        "session_id": "s",
        "trajectory_id": "s",
        "agent": {"name": "a", "version": "1", "model_name": "m"},
        "steps": [
            {"step_id": 1, "source": "user", "message": "Do it."},
            {
                "step_id": 2,
                "timestamp": "2023-11-14T22:13:20.500000+00:00",
                "source": "agent",
                "model_name": "m-2026",
                "message": "I look.",
                "reasoning_content": "hm",
                "tool_calls": [
                    {"tool_call_id": "c1", "function_name": "bash", "arguments": {"command": "ls"}}
                ],
                "observation": {"results": [{"source_call_id": "c1", "content": "a.txt"}]},
                "metrics": {
                    "prompt_tokens": 10,
                    "completion_tokens": 5,
                    "cached_tokens": 4,
                    "cost_usd": 0.25,
                    "extra": {"reasoning_tokens": 3},
                },
                "extra": {"stop_reason": "tool_calls"},
            },
        ],
        "final_metrics": {
            "total_prompt_tokens": 10,
            "total_completion_tokens": 5,
            "total_cached_tokens": 4,
            "total_cost_usd": 0.25,
            "total_steps": 2,
        },
    }


def test_a_trajectory_without_steps_is_none() -> None:
    assert to_atif(Trajectory(), session_id="s", agent="a", version="1", model="m") is None


def test_numbers_with_gaps_are_counted_anew() -> None:
    assert [step.step_id for step in convert(agent_step(3), agent_step(7)).steps] == [1, 2]


def test_calls_without_an_id_or_with_the_same_get_ids_of_their_own() -> None:
    calls = [ToolCall(name="f"), ToolCall(id="x", name="f"), ToolCall(id="x", name="f", arguments='{"a": ')]
    [step] = convert(agent_step(tool_calls=calls)).steps
    assert [call.tool_call_id for call in step.tool_calls or []] == ["step_1_call_1", "x", "step_1_call_3"]
    assert [call.arguments for call in step.tool_calls or []] == [{}, {}, {"malformed_arguments": '{"a": '}]


def test_an_observation_of_an_unknown_call_belongs_to_the_step() -> None:
    [step] = convert(agent_step(observations=[Observation(tool_call_id="gone", content={"a": 1})])).steps
    assert step.observation is not None
    [result] = step.observation.results
    assert (result.source_call_id, result.content) == (None, '{"a": 1}')


def test_what_only_agents_have_is_kept_as_extra_of_others() -> None:
    odd = TrajectoryStep(step_id=1, source="user", reasoning="hm", model="m", tool_calls=[ToolCall(name="f")])
    [step] = convert(odd).steps
    assert step.extra == {
        "reasoning": "hm",
        "model": "m",
        "tool_calls": [{"id": "", "name": "f", "arguments": None}],
    }


@pytest.mark.parametrize("when", [float("nan"), float("inf"), 1e300, -1e300])
def test_a_time_that_is_none_is_left_out(when: float) -> None:
    assert convert(agent_step(timestamp=when)).steps[0].timestamp is None


def test_parts_of_a_message_are_joined() -> None:
    parts = [{"type": "text", "text": "See:"}, {"type": "image_url", "image_url": {"url": "http://x/y.png"}}]
    text = convert(agent_step(message=parts)).steps[0].message
    assert text == 'See:\n{"type": "image_url", "image_url": {"url": "http://x/y.png"}}'


def test_tools_are_told_in_the_shape_of_functions() -> None:
    tool = {"name": "bash", "description": "runs", "parameters": {"type": "object"}}
    found = convert(agent_step(), tool_definitions=[tool], other=1)
    assert found.agent.tool_definitions == [{"type": "function", "function": tool}]
    assert found.extra == {"other": 1}


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"steps": []}, "at least 1 item"),
        ({"steps": [{"step_id": 2, "source": "user", "message": ""}]}, "step 1 has the id 2"),
        ({"steps": [{"step_id": 1, "source": "user", "message": "", "metrics": {}}]}, "metrics on a step"),
        (
            {
                "steps": [
                    {
                        "step_id": 1,
                        "source": "agent",
                        "message": "",
                        "observation": {"results": [{"source_call_id": "c"}]},
                    }
                ]
            },
            "names the call 'c', which is not there",
        ),
        ({"steps": [{"step_id": 1, "source": "robot", "message": ""}]}, "source"),
        ({"steps": [{"step_id": 1, "source": "agent", "message": "", "timestamp": "noon"}]}, "timestamp"),
        ({"notes": 1}, "notes"),
    ],
)
def test_the_model_refuses_what_the_format_forbids(change: dict[str, Any], problem: str) -> None:
    good = convert(agent_step()).model_dump(mode="json", exclude_none=True)
    with pytest.raises(ValidationError, match=problem):
        AtifTrajectory.model_validate({**good, **change})
