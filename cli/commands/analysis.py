"""``agentcompass analysis``: explain the attempts of a finished run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .gate_flags import AsJson
from .run_directory import InputDir

if TYPE_CHECKING:
    from ...activities.analysis.rerun import AnalysisReport
    from ...contracts.request import AnalysisSpec
    from ..config import StoreLiteral


def analysis(
    run_dir: Annotated[
        Path | None, typer.Argument(metavar="RUN_DIR", help="A run directory.", show_default=False)
    ] = None,
    input_dir: InputDir = None,
    output_dir: Annotated[
        Path | None,
        typer.Option(
            "--output",
            metavar="DIR",
            help="Where the copy with the results goes.  [default: a new directory beside RUN_DIR]",
        ),
    ] = None,
    override: Annotated[
        bool, typer.Option("--override", help="Write the results into RUN_DIR itself.")
    ] = False,
    analyzer: Annotated[
        list[str] | None,
        typer.Option(
            "--analyzer",
            metavar="ID",
            help="Run this analyzer instead of the configured ones; repeatable. See `agentcompass list analyzers`.",
        ),
    ] = None,
    analysis_params: Annotated[
        str | None,
        typer.Option(
            "--analysis-params",
            metavar="JSON",
            help="Which analyzers run and with what, as in `agentcompass run`; goes over what the run was given.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Let analyzers look at a run's attempts again; needs no server and changes no score.

    Writes analysis_result into the task records, analysis_summary.json and analysis_summary.md.

    Exit codes: 0 done; 1 an analyzer failed on an attempt, or a task record cannot be read; 2 bad usage.
    """
    import sys

    from ...activities.analysis.rerun import analyze_run
    from ...contracts.errors import UsageError
    from ..config import HomeSecretStore
    from ..damage_text import tell_damage
    from ..home import home_folder
    from .output import print_json
    from .run_directory import run_directory

    if override and output_dir is not None:
        raise UsageError("--override writes into the run itself, so --output cannot be given with it")
    source = run_directory(run_dir, input_dir)
    store = HomeSecretStore(home_folder())
    try:
        given = _spec(analysis_params, analyzer, store)
        report = analyze_run(source, given, output=output_dir, override=override)
    finally:
        store.discard()
    if as_json:
        print_json(report)
    else:
        print("\n".join(report_lines(report)))
    if report.failures:
        print(f"Not passed: analyzers failed {report.failures} times", file=sys.stderr)
    damaged = tell_damage(report.damaged)
    return 1 if report.failures else damaged


def _spec(text: str | None, analyzers: list[str] | None, store: StoreLiteral) -> AnalysisSpec:
    """The flags as a specification of which only what was given is set. Raises ``ConfigurationError``."""
    import os

    from pydantic import ValidationError

    from ...contracts.errors import ConfigurationError
    from ...contracts.request import AnalysisSpec
    from ...plugins.params import describe_validation_error
    from ..config.places import dotted
    from ..config.secret_fields import SecretFields
    from .parse import json_object

    values = dict(json_object(text, "--analysis-params") or {})
    if analyzers:
        values["analyzers"] = list(analyzers)
    secrets = SecretFields(os.environ, lambda path: f"--analysis-params: {dotted(path)}")
    try:
        expanded = secrets.expand_tree(values)
        AnalysisSpec.model_validate(expanded)
        return AnalysisSpec.model_validate(secrets.store(expanded, store))
    except ValidationError as error:
        raise ConfigurationError(
            describe_validation_error(error, AnalysisSpec, "--analysis-params")
        ) from None


def report_lines(report: AnalysisReport) -> list[str]:
    """Counts by label, for people."""
    summary = report.summary
    lines = [f"Analysed: {summary.analyzed_attempts} of {summary.attempts} attempts, {summary.tasks} tasks"]
    for analyzer in summary.analyzers:
        found = [f"{label.label} {label.attempts}" for label in analyzer.labels]
        if analyzer.failed:
            found.append(f"FAILED {analyzer.failed}: {analyzer.errors[0]}")
        lines.append(f"  {analyzer.analyzer}: {', '.join(found) or 'nothing'}")
    return [*lines, f"Run directory: {report.run_dir}"]
