"""Let analyzers look at finished tasks, a batch at a time, in the background of the request."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

from temporalio import activity

from ..contracts.activities import ANALYZE_TASKS, AnalyzedTasks, AnalyzeTasksInput
from ..contracts.analyzer import Analyzer
from .analysis import Analysis, analyze_tasks, select_analyzers
from .boundary import activity_boundary
from .heartbeat import heartbeating
from .services import Services
from .store import run_log_scope

_CACHED_RUNS = 64


class AnalyzeTasks:
    """A second try leaves alone what the first one has stored, and does the rest."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._analyzers: OrderedDict[str, Sequence[Analyzer[Any]]] = OrderedDict()

    @activity.defn(name=ANALYZE_TASKS.name)
    @activity_boundary
    async def analyze_tasks(self, input: AnalyzeTasksInput) -> AnalyzedTasks:
        """Add what the analyzers find to the records; a record that cannot be read is left out."""
        store = self._services.store(input.run_dir)
        request = store.request()
        async with heartbeating():
            with run_log_scope(input.run_dir):
                analysis = Analysis(
                    store=store,
                    analyzers=self._of(input.run_dir),
                    timeout_seconds=request.execution.analysis_params.timeout_seconds,
                )
                entries = await asyncio.to_thread(store.task_entries)
                return await analyze_tasks(analysis, [entries[index] for index in input.task_indexes])

    def _of(self, run_dir: str) -> Sequence[Analyzer[Any]]:
        """The analyzers of a run, made when first asked for."""
        if run_dir not in self._analyzers:
            request = self._services.store(run_dir).request()
            self._analyzers[run_dir] = select_analyzers(request, self._services.registry(request))
            while len(self._analyzers) > _CACHED_RUNS:
                self._analyzers.popitem(last=False)
        return self._analyzers[run_dir]
