"""The Python SDK: the same requests as the command line, with typed arguments and results.

>>> from agentcompass import run_evaluation
>>> result = run_evaluation(benchmark="humaneval", harness="oracle", model="none")
>>> result.value
1.0

Evaluations run in worker processes, so components have to be installed (see
``docs/extending/``): a class defined in a script or notebook is not seen by them.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypedDict, cast

from pydantic import JsonValue
from typing_extensions import Unpack

from ..contracts.errors import AgentCompassError
from ..contracts.launch import LaunchRuntime, RequestResult
from ..contracts.request import RunRequest
from .config import HomeSecretStore, ResolvedRun, RunArguments, cluster_store, resolve_run
from .connection import resolve_connection
from .home import home_folder
from .launch_options import StartOptions

if TYPE_CHECKING:
    from .config import StoreLiteral

Params = Mapping[str, JsonValue]


class RequestOptions(TypedDict, total=False):
    """What a request may say beside its four components. Times are in seconds."""

    benchmark_params: Params
    harness_params: Params
    environment_params: Params
    model_params: Params
    execution_params: Params
    analysis_params: Params
    model_base_url: str
    model_api_key: str
    """A key, ``${VAR}``, ``env:VAR`` or ``file:/path``; the request holds a reference only."""
    model_api_protocol: str | Sequence[str]
    task_concurrency: int
    k: int
    attempt_strategy: str
    max_retries: int
    retry_pattern_list: Sequence[str]
    enabled_recipes: Sequence[str]
    recipe_dirs: Sequence[str]
    keep_environment: bool
    enable_analysis: bool
    run_name: str
    run_id: str
    reuse: bool
    reuse_run_id: str
    checkpoint_resume: bool
    config_path: str | Sequence[str]
    """Configuration files on top of the user's and the project's, lowest precedence first."""


class RunOptions(RequestOptions, total=False):
    """A request's options and those of the launch around it."""

    results_dir: str
    timeout_seconds: float
    cleanup_grace_seconds: float
    provider_limits: Mapping[str, float]
    env_open_qps: Mapping[str, float]
    progress: str
    """``auto``, ``plain`` or ``none`` (the default of the SDK)."""
    log_level: str
    file_log_level: str


class EvaluationFailedError(AgentCompassError):
    """The run is over without a valid result; ``result`` says how and where."""

    def __init__(self, result: RequestResult) -> None:
        place = f"; see {result.run_dir}" if result.run_dir else ""
        super().__init__(f"the run is {result.status}: {result.error or 'no reason given'}{place}")
        self.result = result


def build_run_request(
    *,
    benchmark: str,
    harness: str,
    model: str,
    environment: str = "host_process",
    **options: Unpack[RequestOptions],
) -> RunRequest:
    """The validated request that these arguments and the configuration files make.

    Raises:
        UsageError: something is unknown or wrong; the message says what to change.
    """
    return _resolve(benchmark, harness, model, environment, cast(RunOptions, options)).request


def run_evaluation(
    *,
    benchmark: str,
    harness: str,
    model: str,
    environment: str = "host_process",
    **options: Unpack[RunOptions],
) -> RequestResult:
    """Run an evaluation to its end; :func:`async_run_evaluation` for code without an event loop.

    Raises ``RuntimeError`` where an event loop runs, as in a notebook.
    """
    _refuse_event_loop("run_evaluation")
    return asyncio.run(
        async_run_evaluation(
            benchmark=benchmark, harness=harness, model=model, environment=environment, **options
        )
    )


def _refuse_event_loop(name: str) -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise RuntimeError(f"an event loop runs here, as in a notebook: use `await async_{name}(…)`")


async def async_run_evaluation(
    *,
    benchmark: str,
    harness: str,
    model: str,
    environment: str = "host_process",
    **options: Unpack[RunOptions],
) -> RequestResult:
    """Run an evaluation to its end and return its result.

    Cancelling the task leaves the launch running: ``agentcompass attach`` or ``cancel`` go on.

    Raises:
        UsageError: the request cannot be carried out; nothing was written.
        ServiceUnreachableError: Temporal or the model endpoint does not answer.
        EvaluationFailedError: the run is over, but failed, timed out or was cancelled.
    """
    resolved = _resolve(benchmark, harness, model, environment, options)
    return await _run(resolved, options.get("progress"), StartOptions())


async def async_run_evaluation_request(
    request: RunRequest, *, runtime: LaunchRuntime | None = None, progress: str = "none"
) -> RequestResult:
    """Run a request that :func:`build_run_request` made; errors as :func:`async_run_evaluation`."""
    runtime = runtime or LaunchRuntime()
    results_dir = os.path.join(os.getcwd(), runtime.results_dir)
    resolved = ResolvedRun(request, runtime.model_copy(update={"results_dir": results_dir}))
    # A request is the caller's and may be run again: what it refers to stays.
    return await _run(resolved, progress, StartOptions(removes_keys=False))


def run_evaluation_request(
    request: RunRequest, *, runtime: LaunchRuntime | None = None, progress: str = "none"
) -> RequestResult:
    """:func:`async_run_evaluation_request` for code without an event loop."""
    _refuse_event_loop("run_evaluation_request")
    return asyncio.run(async_run_evaluation_request(request, runtime=runtime, progress=progress))


async def _run(resolved: ResolvedRun, progress: str | None, start: StartOptions) -> RequestResult:
    from . import launcher
    from .commands.choices import progress_mode
    from .display import make_display

    handle = await launcher.start(resolved.spec(), start)
    with make_display(progress_mode(progress or "none")) as display:
        launch = await launcher.follow(handle, display)
        display.finish(launch)
    result = launch.requests[0] if launch.requests else None
    if result is None:
        result = RequestResult(key="", status=launch.status, error=launch.error)
    if not result.valid:
        raise EvaluationFailedError(result)
    return result


def _resolve(benchmark: str, harness: str, model: str, environment: str, options: RunOptions) -> ResolvedRun:
    given = dict(options)
    config = given.pop("config_path", ())
    reuse: object = given.pop("reuse", None)
    arguments = {
        **given,
        "env": environment,
        "env_params": given.pop("environment_params", None),
        "recipes": given.pop("enabled_recipes", None),
        "reuse": given.pop("reuse_run_id", None) or reuse,
        "config": [config] if isinstance(config, str) else list(config),  # type: ignore[call-overload]
    }
    for renamed in ("environment_params", "enabled_recipes", "reuse_run_id"):
        arguments.pop(renamed, None)
    store: StoreLiteral = (
        cluster_store() if resolve_connection().mode == "cluster" else HomeSecretStore(home_folder())
    )
    run = RunArguments(benchmark=benchmark, harness=harness, model=model, **arguments)  # type: ignore[arg-type]
    return resolve_run(run, store_literal=store, naming="parameters")
