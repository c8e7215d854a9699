"""Preflight: refuse an impossible launch before anything is written or opened."""

from __future__ import annotations

import asyncio
import functools
import os
from pathlib import Path

from temporalio import activity

from ..contracts.activities import PREFLIGHT, PreflightInput, PreflightReport
from ..contracts.benchmark import HarnessFreeBenchmark
from ..contracts.component import local_path_fields
from ..contracts.errors import AgentCompassError, ServiceUnreachableError, StageFailure, UsageError
from ..contracts.launch import LaunchSpec
from ..contracts.network import NetworkPolicy
from ..contracts.request import EnvironmentSpec, RunRequest
from ..plugins.models.reachability import check_reachable
from .analysis import select_analyzers
from .boundary import activity_boundary
from .classification import describe
from .heartbeat import heartbeating
from .hook_calls import call_hook
from .network_checks import network_problems, variables_problem
from .own_thread import LeftBehindError, in_own_thread
from .request_endpoints import request_endpoints
from .reuse import find_source
from .services import RequestComponents, Services, build_components, resolve_secret, resolve_variables


class Preflight:
    """Looks only; running it twice is safe."""

    def __init__(self, services: Services) -> None:
        self._services = services

    @activity.defn(name=PREFLIGHT.name)
    @activity_boundary
    async def preflight(self, input: PreflightInput) -> PreflightReport:
        """Check every component of every request; all problems are told at once."""
        report = PreflightReport()
        async with heartbeating():
            problem = writable_problem(input.spec)
            if problem:
                report.problems.append(problem)
            for request in input.spec.requests:
                await self._check(request, report, input.spec)
        return report

    async def _check(self, request: RunRequest, report: PreflightReport, spec: LaunchSpec) -> None:
        where = f"request {request.metadata.request_name!r}: " if len(spec.requests) > 1 else ""
        known = len(report.problems)
        try:
            registry = self._services.registry(request)
            components = build_components(request, registry)
            report.endpoints.append(request_endpoints(components))
            select_analyzers(request, registry)
            report.problems += [where + text for text in await _checked_combination(components)]
            report.problems += [where + text for text in await asyncio.to_thread(missing_data, components)]
            unenforceable = policy_problems(components)
            report.problems += [where + text for text in unenforceable]
            await asyncio.to_thread(find_source, request, Path(spec.runtime.results_dir))
            resolve_secrets(request)
            if not unenforceable:  # the provider would say the same again
                await call_hook(components.environment.preflight, request.environment)
        except ServiceUnreachableError as error:
            report.unreachable.append(f"{where}{error}")
            return
        except (AgentCompassError, StageFailure) as error:
            report.problems.append(f"{where}{error}")
            return
        except Exception as error:  # extension code may raise anything; the component is named
            report.problems.append(f"{where}environment {request.environment.id!r}: {describe(error)}")
            return
        # A model that cannot be used as it is written need not be reached, too.
        if components.harness is not None and components.harness.uses_model and len(report.problems) == known:
            unreachable = await check_reachable(request.model)
            if unreachable:
                report.unreachable.append(where + unreachable)


def writable_problem(spec: LaunchSpec) -> str:
    """Why the results directory cannot be written, or an empty string. Makes nothing."""
    directory = Path(spec.runtime.results_dir)
    existing = directory
    while not existing.exists() and existing != existing.parent:
        existing = existing.parent
    if not existing.is_dir():
        return f"results directory {directory}: {existing} is not a directory"
    if not os.access(existing, os.W_OK | os.X_OK):
        return f"results directory {directory} cannot be written; choose another --results-dir"
    return ""


def missing_data(components: RequestComponents) -> list[str]:
    """Files and folders that the benchmark is told to read and that this worker does not see.

    A later request of a launch would find out only after hours.
    """
    params = components.benchmark.params
    given = {name: getattr(params, name) for name in local_path_fields(type(params))}
    return [
        f"benchmark {components.request.benchmark.id!r}: {name}: {path!r} does not exist"
        for name, path in given.items()
        if isinstance(path, str) and path and not Path(path).exists()
    ]


async def _checked_combination(components: RequestComponents) -> list[str]:
    try:
        return await in_own_thread(functools.partial(combination_problems, components), "supports")
    except LeftBehindError as error:
        return [f"harness {components.request.harness.id!r} cannot be used here: {error}"]


def combination_problems(components: RequestComponents) -> list[str]:
    """Whether benchmark, harness, environment and model fit together."""
    request = components.request
    free = isinstance(components.benchmark, HarnessFreeBenchmark)
    if components.harness is None:
        if free:
            return []
        return [
            f"benchmark {request.benchmark.id!r} needs a harness; 'none' is for benchmarks that run their tasks themselves"
        ]
    if free:
        return [
            f"benchmark {request.benchmark.id!r} runs its tasks itself: use harness 'none' instead of {request.harness.id!r}"
        ]
    try:
        reason = components.harness.supports(request.environment, request.model)
        components.harness.run_hosts("preflight", components.environment.capabilities.worker_host)
    except UsageError as error:
        reason = str(error)
    except Exception as error:  # extension code may raise anything; the component is named
        reason = describe(error)
    return [f"harness {request.harness.id!r} cannot be used here: {reason}"] if reason else []


def policy_problems(components: RequestComponents) -> list[str]:
    """Network policies and resources that the provider cannot enforce."""
    spec = components.request.environment
    capabilities = components.environment.capabilities
    baseline = spec.network_policy or NetworkPolicy()
    problems = network_problems(
        spec.id,
        capabilities,
        baseline,
        spec.run_network_policy or baseline,
        spec.verifier_network_policy or baseline,
    )
    mode = spec.evaluation_environment_mode or components.benchmark.evaluation_environment_mode
    variables = variables_problem(components.request, mode)
    if variables:
        problems.append(variables)
    return problems + _resource_problems(spec, capabilities.resources)


def _resource_problems(spec: EnvironmentSpec, offered: list[str]) -> list[str]:
    wanted = spec.resources.model_dump(exclude_none=True)
    return [
        f"environment {spec.id!r} cannot limit {name!r}; it offers {', '.join(offered) or 'no resource limits'}"
        for name in wanted
        if name not in offered
    ]


def resolve_secrets(request: RunRequest) -> None:
    """Raise ``StageFailure`` when a referenced secret is missing on this worker."""
    resolve_secret(request.model.api_key)
    spec = request.environment
    for variables in (spec.env_variables, spec.run_env_variables, spec.evaluation_env_variables):
        resolve_variables(variables)
    resolve_variables(spec.evaluation_environment_env_variables or {})
