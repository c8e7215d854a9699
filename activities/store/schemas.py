"""JSON Schemas of the files of a run directory.

``python -m agentcompass.activities.store.schemas [DIRECTORY]`` writes them (default ``docs/schemas``).
"""

from __future__ import annotations

import sys
from pathlib import Path

import orjson
from pydantic import BaseModel

from ...contracts.comparison import Comparison
from ...contracts.launch import LaunchSummary
from ...contracts.metrics import MetricReport
from ...contracts.records import (
    AnalysisSummary,
    AttemptCheckpoint,
    EvaluationCheckpoint,
    ProgressEvent,
    ProgressSnapshot,
    RetryRecord,
    RunInfo,
    RunParams,
    TaskRecord,
)

SCHEMAS: dict[str, type[BaseModel]] = {
    "analysis_summary": AnalysisSummary,
    "attempt_checkpoint": AttemptCheckpoint,
    "comparison": Comparison,
    "evaluation_checkpoint": EvaluationCheckpoint,
    "launch_summary": LaunchSummary,
    "metrics": MetricReport,
    "params": RunParams,
    "progress": ProgressSnapshot,
    "progress_event": ProgressEvent,
    "retry": RetryRecord,
    "run_info": RunInfo,
    "task": TaskRecord,
}
"""Schema file, without its extension, to the model that it is made from."""

DIRECTORY = Path(__file__).parents[2] / "docs" / "schemas"


def render(name: str) -> bytes:
    """The content of ``docs/schemas/<name>.schema.json``."""
    schema = SCHEMAS[name].model_json_schema(mode="serialization")
    document = {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
    return orjson.dumps(document, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def write_schemas(directory: Path) -> None:
    """Write every schema to ``directory``."""
    directory.mkdir(parents=True, exist_ok=True)
    for name in SCHEMAS:
        (directory / f"{name}.schema.json").write_bytes(render(name))


if __name__ == "__main__":
    write_schemas(Path(sys.argv[1]) if len(sys.argv) > 1 else DIRECTORY)
