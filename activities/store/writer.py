"""Writing models with secrets masked: the one way by which anything reaches a run directory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import BaseModel

from ..redaction import Redactor
from .files import encode, write_atomic

CONTENT_KEYS = frozenset(
    {
        "ground_truth",
        "final_answer",
        "metrics",
        "trajectory",
        "resolved_execution_plans",
        "categories",
        "analysis_result",
    }
)
"""What benchmark, agent and verifier said, and maps keyed by their words: field names mean nothing there."""


class MaskingWriter:
    """Writes the program's own state exactly and the records for people with secrets masked."""

    def __init__(self, redactor: Redactor) -> None:
        self.redactor = redactor

    def write_state(self, path: Path, value: BaseModel | Any, *, durable: bool) -> None:
        """Compact, and read again by a later phase: only registered values are masked."""
        data = encode(value)
        if self.redactor.known_in(data):
            plain = value.model_dump(mode="json") if isinstance(value, BaseModel) else value
            data = encode(self.redactor.known(plain))
        write_atomic(path, data, durable=durable)

    def write_record(self, path: Path, value: BaseModel | Any, *, durable: bool) -> None:
        """Indented and for people: registered values, sensitive fields and credentials are masked."""
        plain = value.model_dump(mode="json") if isinstance(value, BaseModel) else value
        write_atomic(path, encode(self.redactor.value(plain, CONTENT_KEYS), indent=True), durable=durable)
