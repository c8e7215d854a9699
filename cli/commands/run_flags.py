"""The flags of ``agentcompass run``, shared with ``config show``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from ..completion import complete_benchmark, complete_environment, complete_harness
from .shared_flags import (
    COMPONENTS,
    DISPLAY,
    EXECUTION,
    MODEL,
    OUTPUT,
    Attempts,
    CheckpointResume,
    CleanupGraceSeconds,
    EnvOpenQps,
    FileLogLevel,
    LogLevel,
    Progress,
    ProviderLimit,
    RecipeDir,
    ResultsDir,
    Reuse,
    TaskConcurrency,
    TimeoutSeconds,
)

if TYPE_CHECKING:
    from ..config import RunArguments


@dataclass(frozen=True)
class RunFlags:
    """What can be said about one run."""

    benchmark: Annotated[
        str,
        typer.Argument(
            help="Benchmark to run; see `agentcompass list benchmarks`.",
            metavar="BENCHMARK",
            autocompletion=complete_benchmark,
        ),
    ]
    harness: Annotated[
        str,
        typer.Argument(
            help="Agent harness that solves the tasks; `none` when the benchmark runs them itself.",
            metavar="HARNESS",
            autocompletion=complete_harness,
        ),
    ]
    model: Annotated[str, typer.Argument(help="Model name, as its endpoint calls it.", metavar="MODEL")]
    env: Annotated[
        str | None,
        typer.Option(
            "--env",
            metavar="ID",
            rich_help_panel=COMPONENTS,
            autocompletion=complete_environment,
            help="Environment that tasks run in.  [default: host_process]",
        ),
    ] = None
    benchmark_params: Annotated[
        str | None,
        typer.Option(
            "--benchmark-params",
            metavar="JSON",
            rich_help_panel=COMPONENTS,
            help="Parameters of the benchmark, as a JSON object.",
        ),
    ] = None
    harness_params: Annotated[
        str | None,
        typer.Option(
            "--harness-params",
            metavar="JSON",
            rich_help_panel=COMPONENTS,
            help="Parameters of the harness, as a JSON object.",
        ),
    ] = None
    env_params: Annotated[
        str | None,
        typer.Option(
            "--env-params",
            metavar="JSON",
            rich_help_panel=COMPONENTS,
            help="Parameters of the environment, with setup, resources, network_policy, env_variables …",
        ),
    ] = None
    recipe: Annotated[
        list[str] | None,
        typer.Option(
            "--recipe",
            metavar="ID",
            rich_help_panel=COMPONENTS,
            help="Enable only this recipe; repeat for several.",
        ),
    ] = None
    recipe_dir: RecipeDir = None
    model_base_url: Annotated[
        str | None,
        typer.Option(
            "--model-base-url",
            metavar="URL",
            rich_help_panel=MODEL,
            help="Address of the model's API, or '${VAR}' in single quotes.",
        ),
    ] = None
    model_api_key: Annotated[
        str | None,
        typer.Option(
            "--model-api-key",
            metavar="KEY",
            rich_help_panel=MODEL,
            help="'${VAR}' in single quotes, env:VAR or file:/path. A key written out is kept in a private file, "
            "and refused with a Temporal cluster.",
        ),
    ] = None
    model_api_protocol: Annotated[
        str | None,
        typer.Option(
            "--model-api-protocol",
            metavar="NAME",
            rich_help_panel=MODEL,
            help="openai-chat, openai-responses, anthropic, scripted or auto; or a JSON list in order of preference.",
        ),
    ] = None
    model_params: Annotated[
        str | None,
        typer.Option(
            "--model-params",
            metavar="JSON",
            rich_help_panel=MODEL,
            help="Parameters of every model call, such as temperature, as a JSON object.",
        ),
    ] = None
    k: Attempts = None
    attempt_strategy: Annotated[
        str | None,
        typer.Option(
            "--attempt-strategy",
            metavar="avg|pass",
            rich_help_panel=EXECUTION,
            help="avg runs all k attempts; pass stops at the first success.  [default: avg]",
        ),
    ] = None
    task_concurrency: TaskConcurrency = None
    provider_limit: ProviderLimit = None
    env_open_qps: EnvOpenQps = None
    max_retries: Annotated[
        int | None,
        typer.Option(
            "--max-retries",
            metavar="N",
            rich_help_panel=EXECUTION,
            help="Extra executions of an attempt that failed.  [default: 0]",
        ),
    ] = None
    retry_pattern_list: Annotated[
        str | None,
        typer.Option(
            "--retry-pattern-list",
            metavar="JSON",
            rich_help_panel=EXECUTION,
            help="Regular expressions; an ERROR whose message or code matches one is retried, too.",
        ),
    ] = None
    timeout_seconds: TimeoutSeconds = None
    cleanup_grace_seconds: CleanupGraceSeconds = None
    execution_params: Annotated[
        str | None,
        typer.Option(
            "--execution-params",
            metavar="JSON",
            rich_help_panel=EXECUTION,
            help="Any setting of section execution (timeouts, artifacts, …), as a JSON object.",
        ),
    ] = None
    keep_environment: Annotated[
        bool | None,
        typer.Option(
            "--keep-environment/--no-keep-environment",
            rich_help_panel=EXECUTION,
            help="Leave environments running for debugging.  [default: no]",
        ),
    ] = None
    enable_analysis: Annotated[
        bool | None,
        typer.Option(
            "--enable-analysis/--no-enable-analysis",
            rich_help_panel=EXECUTION,
            help="Run analyzers on scored attempts.  [default: yes]",
        ),
    ] = None
    analysis_params: Annotated[
        str | None,
        typer.Option(
            "--analysis-params",
            metavar="JSON",
            rich_help_panel=EXECUTION,
            help="Which analyzers run and with what, as a JSON object.",
        ),
    ] = None
    results_dir: ResultsDir = None
    run_name: Annotated[
        str | None,
        typer.Option(
            "--run-name",
            metavar="NAME",
            rich_help_panel=OUTPUT,
            help="Extra folder that groups runs of one experiment.",
        ),
    ] = None
    run_id: Annotated[
        str | None,
        typer.Option(
            "--run-id",
            metavar="ID",
            rich_help_panel=OUTPUT,
            help="Name of the run directory.  [default: time stamp]",
        ),
    ] = None
    reuse: Reuse = None
    checkpoint_resume: CheckpointResume = None
    config: Annotated[
        list[str] | None,
        typer.Option(
            "--config",
            metavar="FILE",
            rich_help_panel=DISPLAY,
            help="Configuration file, above the user's and the project's; repeat for several.",
        ),
    ] = None
    progress: Progress = None
    log_level: LogLevel = None
    file_log_level: FileLogLevel = None

    def arguments(self) -> RunArguments:
        """The flags parsed. Raises ``ConfigurationError`` that names the flag."""
        from ..config import RunArguments
        from .parse import json_list, json_object, number_by_name, protocol

        return RunArguments(
            benchmark=self.benchmark,
            harness=self.harness,
            model=self.model,
            env=self.env,
            benchmark_params=json_object(self.benchmark_params, "--benchmark-params"),
            harness_params=json_object(self.harness_params, "--harness-params"),
            env_params=json_object(self.env_params, "--env-params"),
            model_params=json_object(self.model_params, "--model-params"),
            execution_params=json_object(self.execution_params, "--execution-params"),
            analysis_params=json_object(self.analysis_params, "--analysis-params"),
            model_base_url=self.model_base_url,
            model_api_key=self.model_api_key,
            model_api_protocol=protocol(self.model_api_protocol, "--model-api-protocol"),
            k=self.k,
            attempt_strategy=self.attempt_strategy,
            task_concurrency=self.task_concurrency,
            provider_limits=number_by_name(self.provider_limit, "--provider-limit", whole=True),
            env_open_qps=number_by_name(self.env_open_qps, "--env-open-qps"),
            max_retries=self.max_retries,
            retry_pattern_list=json_list(self.retry_pattern_list, "--retry-pattern-list"),
            timeout_seconds=self.timeout_seconds,
            cleanup_grace_seconds=self.cleanup_grace_seconds,
            results_dir=self.results_dir,
            run_name=self.run_name,
            run_id=self.run_id,
            reuse=self.reuse,
            checkpoint_resume=self.checkpoint_resume,
            keep_environment=self.keep_environment,
            enable_analysis=self.enable_analysis,
            recipes=self.recipe or None,
            recipe_dirs=self.recipe_dir or None,
            progress=self.progress,
            log_level=self.log_level.upper() if self.log_level is not None else None,
            file_log_level=self.file_log_level.upper() if self.file_log_level is not None else None,
            config=tuple(self.config or ()),
        )
