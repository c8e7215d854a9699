"""One that raises and one that waits for a file."""

import asyncio
from pathlib import Path

from agentcompass.contracts import AnalysisFinding, Analyzer, AttemptContext, Contract, RunResult

POLL_SECONDS = 0.05


class RaisingParams(Contract):
    """What the exception says."""

    message: str


class Raising(Analyzer[RaisingParams]):
    """Spoils what it was given, then raises."""

    id = "raising"
    description = "Raises"
    Params = RaisingParams

    async def analyze(self, result: RunResult, context: AttemptContext) -> list[AnalysisFinding]:
        result.metrics.clear()
        result.issues.clear()
        raise RuntimeError(self.params.message)


class WaitingParams(Contract):
    """The file that it waits for."""

    file: str


class Waiting(Analyzer[WaitingParams]):
    """Goes on when the file is there; beside it, it leaves one that says it has begun."""

    id = "waiting"
    description = "Waits for a file"
    Params = WaitingParams

    async def analyze(self, result: RunResult, context: AttemptContext) -> list[AnalysisFinding]:
        self._begin()
        while not self._may_go_on():  # noqa: ASYNC110  no event of ours tells what the test did
            await asyncio.sleep(POLL_SECONDS)
        return [AnalysisFinding(label="waited")]

    def _begin(self) -> None:
        Path(f"{self.params.file}.begun").touch()

    def _may_go_on(self) -> bool:
        return Path(self.params.file).exists()
