"""Measures whether a run stays as fast and as small as it grows: many attempts against few."""

from __future__ import annotations

import itertools
import statistics
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from command import Bench, attempt_times, no_op, run_json, worker_pid
from processes import read_usage

_LOOK_SECONDS = 0.2
_FINISHED = b'"attempt_finished"'
_PARTS = 10


@dataclass(frozen=True)
class MemorySample:
    """The worker's resident set once so many attempts had finished."""

    attempts: int
    resident_mb: float


@dataclass(frozen=True)
class SizedRun:
    """One run of do-nothing attempts."""

    attempts: int
    attempts_per_second: float
    parts_per_second: list[float]
    """The same for each tenth of its attempts, in the order in which they finished."""
    memory: list[MemorySample]


@dataclass
class Growth:
    """Runs of few and of many attempts, by turns; the first and the last are of few."""

    few: list[SizedRun] = field(default_factory=list)
    many: list[SizedRun] = field(default_factory=list)

    @property
    def ratios(self) -> list[float]:
        """Attempts per second of each long run, divided by those of the short runs beside it."""
        rates = [item.attempts_per_second for item in self.few]
        return [
            long.attempts_per_second / statistics.mean(rates[number : number + 2])
            for number, long in enumerate(self.many)
        ]


def measure_growth(bench: Bench, few: int, marks: list[int], concurrency: int, rounds: int) -> Growth:
    """Short and long runs by turns; a long one has as many attempts as the last of ``marks``, where its
    worker's memory is looked at."""
    growth = Growth([_measure(bench, few, [], concurrency)])
    for _ in range(rounds):
        growth.many.append(_measure(bench, marks[-1], marks, concurrency))
        growth.few.append(_measure(bench, few, [], concurrency))
    return growth


def _measure(bench: Bench, attempts: int, marks: list[int], concurrency: int) -> SizedRun:
    with _MemoryWatch(bench, marks) as watch:
        result, _ = run_json(bench, *no_op(bench, attempts, concurrency))
    started, ended = attempt_times(Path(result["requests"][0]["run_dir"]))
    if len(ended) != attempts:
        raise RuntimeError(f"{len(ended)} of {attempts} attempts finished")
    ended.sort()
    size = attempts // _PARTS
    bounds = [min(started), *(ended[size * number - 1] for number in range(1, _PARTS + 1))]
    return SizedRun(
        attempts,
        attempts / (max(ended) - min(started)),
        [size / (end - begin) for begin, end in itertools.pairwise(bounds)],
        watch.samples,
    )


class _MemoryWatch:
    """Samples the worker's memory at given numbers of finished attempts of the run that starts next."""

    def __init__(self, bench: Bench, marks: list[int]) -> None:
        self._bench = bench
        self._marks = list(marks)
        self._before = set(self._logs())
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self.samples: list[MemorySample] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._stopped.set()
        self._thread.join()

    def _logs(self) -> list[Path]:
        return list(self._bench.results.glob("*/*/progress.jsonl"))

    def _watch(self) -> None:
        finished, offset = 0, 0
        log: Path | None = None
        while self._marks and not self._stopped.wait(_LOOK_SECONDS):
            log = log or next((path for path in self._logs() if path not in self._before), None)
            if log is None:
                continue
            with log.open("rb") as stream:
                stream.seek(offset)
                data = stream.read()
            whole = data[: data.rfind(b"\n") + 1]
            offset += len(whole)
            finished += whole.count(_FINISHED)
            self._sample(finished)

    def _sample(self, finished: int) -> None:
        pid = worker_pid(self._bench.home)
        usage = read_usage(pid) if pid else None
        # Several at once when the last look was long ago: the same memory stands for all of them.
        while usage is not None and self._marks and finished >= self._marks[0]:
            self.samples.append(MemorySample(self._marks.pop(0), usage.resident_mb))
