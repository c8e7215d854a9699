"""What one execution of an attempt leaves for the next phase."""

from __future__ import annotations

import errno
import shutil
import tempfile
import threading
from pathlib import Path

import orjson
from pydantic import JsonValue, ValidationError

from ...contracts.activities import OperatorEnd
from ...contracts.plan import ExecutionPlan
from ...contracts.result import RunResult, TrajectoryStep
from ...contracts.task import PreparedTask
from .files import append, encode, find_model, read_bytes, read_json, read_model, write_atomic
from .layout import safe_component
from .linking import link_tree
from .writer import MaskingWriter


class ExecutionStore:
    """Files of one execution. Writing again replaces; a phase that runs twice is safe.

    A ``load_`` method raises RecordError when the file is missing or broken, a ``find_`` method
    returns ``None`` when it is missing.
    """

    def __init__(
        self,
        attempt_dir: Path,
        execution: int,
        artifacts: Path,
        run_dir: Path,
        writer: MaskingWriter,
        step: int = 0,
    ) -> None:
        """``step`` counts from 1; a step has files of its own below those of its execution."""
        self._attempt_dir = attempt_dir
        self._dir = attempt_dir / f"e{execution}"
        self._artifacts = artifacts
        self._plan = attempt_dir / "plan.json"
        self._name = self._dir.name  # of files beside this folder: unique within the attempt
        if step:
            self._dir /= f"s{step}"
            self._artifacts /= f"step-{step}"
            self._plan = attempt_dir / f"plan-s{step}.json"
            self._name += f"-s{step}"
        self._run_dir = run_dir
        self._writer = writer

    def save_plan(self, plan: ExecutionPlan) -> None:
        """The plan belongs to the attempt: all its executions share it."""
        self._writer.write_state(self._plan, plan, durable=False)

    def load_plan(self) -> ExecutionPlan:
        """The plan of the attempt."""
        return read_model(self._plan, ExecutionPlan)

    def find_plan(self) -> ExecutionPlan | None:
        """The plan of the attempt, if it was made."""
        return find_model(self._plan, ExecutionPlan)

    def save_prepared(self, prepared: PreparedTask) -> None:
        """The task as the benchmark prepared it in this execution's environment."""
        self._writer.write_state(self._dir / "prepared.json", prepared, durable=False)

    def load_prepared(self) -> PreparedTask:
        """The prepared task."""
        return read_model(self._dir / "prepared.json", PreparedTask)

    def find_prepared(self) -> PreparedTask | None:
        """The prepared task, if there is one."""
        return find_model(self._dir / "prepared.json", PreparedTask)

    def save_result(self, result: RunResult) -> None:
        """The unscored result."""
        self._writer.write_state(self._dir / "result.json", result, durable=False)

    def load_result(self) -> RunResult:
        """The unscored result."""
        return read_model(self._dir / "result.json", RunResult)

    def find_result(self) -> RunResult | None:
        """The unscored result, if there is one."""
        return find_model(self._dir / "result.json", RunResult)

    def save_scored(self, result: RunResult) -> None:
        """The scored result; durable, because this is what was paid for."""
        self._writer.write_state(self._dir / "scored.json", result, durable=True)

    def load_scored(self) -> RunResult:
        """The scored result."""
        return read_model(self._dir / "scored.json", RunResult)

    def find_scored(self) -> RunResult | None:
        """The scored result, if there is one."""
        return find_model(self._dir / "scored.json", RunResult)

    def find_latest_result(self) -> RunResult | None:
        """The scored result, else the unscored one, else ``None``."""
        return self.find_scored() or self.find_result()

    def save_checkpoint(self, phase: str, value: JsonValue) -> None:
        """Store a JSON value durably for ``phase``, in place of the one before."""
        self._writer.write_state(self._checkpoint(phase), value, durable=True)

    def load_checkpoint(self, phase: str) -> JsonValue:
        """The value stored last for ``phase``, else ``None``."""
        value: JsonValue = read_json(self._checkpoint(phase))
        return value

    def _checkpoint(self, phase: str) -> Path:
        return self._dir / f"checkpoint.{safe_component(phase)}.json"

    def save_end(self, end: OperatorEnd) -> None:
        """An operator's decision to end a phase; the last one counts."""
        self._writer.write_state(self._dir / "end.json", end, durable=True)

    def find_end(self) -> OperatorEnd | None:
        """An operator's decision, if there is one."""
        return find_model(self._dir / "end.json", OperatorEnd)

    def append_step(self, step: TrajectoryStep) -> None:
        """Make a finished step visible at once."""
        line = encode(step)
        if self._writer.redactor.known_in(line):
            line = encode(self._writer.redactor.known(step.model_dump(mode="json")))
        append(self._dir / "steps.jsonl", line)

    def read_steps(self) -> list[TrajectoryStep]:
        """The steps so far, by number; of one written twice the last; a torn last line is left out."""
        steps: dict[int, TrajectoryStep] = {}
        for line in (read_bytes(self._dir / "steps.jsonl") or b"").split(b"\n"):
            try:
                step = TrajectoryStep.model_validate_json(line)
            except ValidationError:
                continue  # empty, or cut off when its writer was killed
            steps[step.step_id] = step
        return [steps[number] for number in sorted(steps)]

    def add_diagnostics(self, text: str) -> None:
        """Append a traceback or similar, secrets masked; see ``artifacts.execution_diagnostics``."""
        masked = self._writer.redactor.text(text).rstrip("\n")
        append(
            self._dir / "diagnostics.jsonl", orjson.dumps(masked.encode("utf-8", "replace").decode()) + b"\n"
        )

    def diagnostics(self) -> str:
        """All diagnostics of this execution, in order; ``""`` without any."""
        texts: list[str] = []
        for line in (read_bytes(self._dir / "diagnostics.jsonl") or b"").splitlines():
            try:
                texts.append(orjson.loads(line))
            except orjson.JSONDecodeError:
                continue  # cut off when its writer was killed
        return "\n".join(texts)

    def save_service_log(self, name: str, data: bytes) -> str:
        """Keep the log of a service beside the sandbox, secrets masked; returns its path in the run directory."""
        folder = (
            self._run_dir / "logs" / "services" / self._artifacts.relative_to(self._run_dir / "artifacts")
        )
        path = folder / f"{safe_component(name)}.log"
        text = self._writer.redactor.text(data.decode("utf-8", "replace"))
        write_atomic(path, text.encode("utf-8", "replace"), durable=False)
        return path.relative_to(self._run_dir).as_posix()

    def artifact_dir(self) -> Path:
        """The directory for files that this execution keeps; made when it is asked for."""
        self._artifacts.mkdir(parents=True, exist_ok=True)
        return self._artifacts

    def artifact_path(self) -> str:
        """The artifact directory relative to the run directory, as records name it."""
        return self._artifacts.relative_to(self._run_dir).as_posix()

    def place_for_copy(self) -> Path:
        """A new directory for :meth:`copy_artifacts`: two tries of a phase may be alive at a time."""
        self._dir.mkdir(parents=True, exist_ok=True)
        return Path(tempfile.mkdtemp(prefix="judged-", dir=self._dir))

    def copy_artifacts(self, place: Path, stop: threading.Event) -> None:
        """Copy the kept files into ``place`` for somebody who may change them. Raises ``OSError``; ends early at ``stop``."""

        def copied(source: str, target: str) -> str:
            if stop.is_set():
                raise InterruptedError(errno.EINTR, "nobody waits for the copy any more", source)
            return str(shutil.copy2(source, target))

        shutil.copytree(self._artifacts, place, symlinks=True, copy_function=copied, dirs_exist_ok=True)

    def adopt_inference(self, earlier: ExecutionStore) -> None:
        """Begin with what ``earlier`` prepared, ran and collected, for a retry of its evaluation alone.

        Files are hard-linked where the file system can; whoever writes must replace them.
        """
        self.save_prepared(earlier.load_prepared())
        self.save_result(earlier.load_result())
        if earlier._artifacts.is_dir():
            shutil.rmtree(self._artifacts, ignore_errors=True)
            link_tree(earlier._artifacts, self._artifacts)

    def discard(self) -> None:
        """Forget what was stored of this execution, the files that it kept included."""
        shutil.rmtree(self._dir, ignore_errors=True)
        shutil.rmtree(self._artifacts, ignore_errors=True)

    def was_planned(self) -> bool:
        """True when the attempt has a plan; cheaper than to read it."""
        return self._plan.exists()

    def count_try(self, step: str) -> int:
        """How often a step of this execution was begun, this time included, by whichever worker."""
        path = self._attempt_dir / f"{self._name}.{safe_component(step)}.tries"
        append(path, b".")
        return path.stat().st_size

    def count_block(self, step: str) -> None:
        """Note that a hook of ``step`` blocked its worker. The process is about to end: nothing but one append."""
        append(self._blocks(step), b".")

    def blocks(self, step: str) -> int:
        """How often a hook of ``step`` blocked its worker until that ended itself."""
        try:
            return self._blocks(step).stat().st_size
        except FileNotFoundError:
            return 0

    def _blocks(self, step: str) -> Path:
        return self._attempt_dir / f"{self._name}.{safe_component(step)}.blocks"

    def exists(self) -> bool:
        """True when anything of this execution was stored."""
        return self._dir.is_dir()
