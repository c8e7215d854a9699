"""What holds in a step: its own tables over those of the task, as in Harbor."""

from __future__ import annotations

from .config import AgentTable, Networked, StepTable, TaskConfig, VerifierTable


def of_step(config: TaskConfig, step: StepTable) -> TaskConfig:
    """The file as if it were that of the step alone."""
    return config.model_copy(
        update={
            "agent": _agent(config.agent, step.agent),
            "verifier": _verifier(config.verifier, step.verifier),
            "artifacts": [*config.artifacts, *step.artifacts],
            "steps": [],
        }
    )


def _agent(task: AgentTable, step: AgentTable) -> AgentTable:
    return task.model_copy(
        update={
            **_network(step),
            "timeout_sec": step.timeout_sec or task.timeout_sec,
            "user": task.user if step.user is None else step.user,
        }
    )


def _verifier(task: VerifierTable, step: VerifierTable) -> VerifierTable:
    """A mode that the step names counts; else a table for its environment means ``separate``; else the task's."""
    named = step.environment_mode is not None or step.environment is not None
    separate = step.separate if named else task.separate
    said = step.model_fields_set
    return task.model_copy(
        update={
            **_network(step),
            "timeout_sec": step.timeout_sec if "timeout_sec" in said else task.timeout_sec,
            "env": {**task.env, **step.env},
            "user": task.user if step.user is None else step.user,
            "environment_mode": "separate" if separate else "shared",
            "environment": (step.environment or task.environment) if separate else None,
            "collect": [*task.collect, *step.collect],
        }
    )


def _network(step: Networked) -> dict[str, object]:
    if step.network_mode is None:
        return {}
    return {"network_mode": step.network_mode, "allowed_hosts": step.allowed_hosts}
