"""The activities that a worker serves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .analyze import AnalyzeTasks
from .await_attempts import AwaitAttempts
from .await_requests import AwaitRequests
from .begin_attempt import BeginAttempt
from .collect_artifacts import CollectArtifacts
from .end_phase import EndPhase
from .environments import Environments
from .evaluate import Evaluate
from .finalize import Finalize
from .hold_environment import HoldEnvironment
from .launch_summary import SaveLaunchSummary
from .plan_attempt import PlanAttempt
from .preflight import Preflight
from .prepare_request import PrepareRequest
from .prepare_task import PrepareTask
from .presence import Presence
from .quick_execution import QuickExecutions
from .reap import ReapEnvironments
from .run_phase import RunPhase
from .save import Save
from .services import Services


def activity_methods(services: Services) -> list[Callable[..., Any]]:
    """Every activity, bound to the process's services."""
    environments, request = Environments(services), PrepareRequest(services)
    run, save = RunPhase(services), Save(services)
    return [
        Preflight(services).preflight,
        request.prepare_request,
        request.discard_request,
        request.pending_tasks,
        request.requeue_failed,
        BeginAttempt(services).begin_attempt,
        PlanAttempt(services).plan_attempt,
        QuickExecutions(services).quick_execution,
        environments.open_environment,
        environments.close_environment,
        PrepareTask(services).prepare_task,
        run.run_harness,
        run.run_task,
        CollectArtifacts(services).collect_artifacts,
        Evaluate(services).evaluate,
        HoldEnvironment(services).hold_environment,
        EndPhase(services).end_phase,
        save.save_retry,
        save.save_attempt,
        AnalyzeTasks(services).analyze_tasks,
        AwaitAttempts(services).await_attempts,
        AwaitRequests(services).await_requests,
        Finalize(services).finalize_request,
        SaveLaunchSummary().save_launch_summary,
        Presence().be_present,
        ReapEnvironments(services).reap_environments,
    ]
