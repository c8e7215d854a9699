"""Which analyzers look at the attempts of a request."""

from __future__ import annotations

import logging
from typing import Any

from ...contracts.analyzer import Analyzer
from ...contracts.errors import PluginError, UsageError
from ...contracts.request import AnalysisSpec, RunRequest
from ...plugins.registry import ComponentKind, Registry
from ..classification import describe
from ..services import resolve_params

_log = logging.getLogger("agentcompass.analyze")


def select_analyzers(request: RunRequest, registry: Registry) -> list[Analyzer[Any]]:
    """The analyzers of ``request``, ready to use; none when it switched analysis off.

    Raises ``UsageError`` for a named one that is unknown, broken or has wrong parameters, and
    ``StageFailure`` when a secret in its parameters cannot be resolved.
    """
    if not request.execution.enable_analysis:
        return []
    return analyzers_of(request.execution.analysis_params, request.benchmark.id, registry)


def analyzers_of(spec: AnalysisSpec, benchmark_id: str, registry: Registry) -> list[Analyzer[Any]]:
    """Those of ``spec`` that apply to a benchmark: of each family the one with the highest priority.

    An installed analyzer that nobody named and that cannot be used as it is (it is broken, or needs
    parameters) is left out, with a line in the log. Raises as :func:`select_analyzers`.
    """
    for name in (*(spec.analyzers or ()), *spec.params):
        registry.get_analyzer(name)
    named = {*(spec.analyzers or ()), *spec.params}
    names = registry.ids(ComponentKind.ANALYZER) if spec.analyzers is None else dict.fromkeys(spec.analyzers)
    families: dict[str, Analyzer[Any]] = {}
    for name in names:
        try:
            analyzer = _build(name, spec, registry)
            applies = _matches(analyzer, benchmark_id)
        except UsageError as error:
            if name in named:
                raise
            _log.info("analyzer %r is not used: %s", name, error)
            continue
        if not applies:
            continue
        family = analyzer.family or analyzer.id
        if family not in families or families[family].priority < analyzer.priority:
            families[family] = analyzer
    return list(families.values())


def _build(name: str, spec: AnalysisSpec, registry: Registry) -> Analyzer[Any]:
    params = registry.validate_params(ComponentKind.ANALYZER, name, resolve_params(spec.params.get(name, {})))
    try:
        return registry.get_analyzer(name)(params)
    except Exception as error:  # extension code may raise anything; the analyzer is named
        raise PluginError(f"analyzer {name!r} cannot be made: {describe(error)}") from error


def _matches(analyzer: Analyzer[Any], benchmark_id: str) -> bool:
    try:
        return bool(analyzer.matches(benchmark_id))
    except Exception as error:  # extension code may raise anything; the analyzer is named
        raise PluginError(f"analyzer {analyzer.id!r}: matches failed: {describe(error)}") from error
