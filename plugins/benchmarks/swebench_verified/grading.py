"""The official grading of a test log, by the package ``swebench``, which is imported only here."""

from __future__ import annotations

import importlib
import tempfile
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, JsonValue

from ....contracts.errors import StageFailure
from ....contracts.extras import install_command
from ....contracts.issues import IssueCode, IssuePhase
from .instance import InstanceFacts

INSTALL = install_command("swebench")


class Report(BaseModel):
    """What ``swebench`` says of an instance."""

    model_config = ConfigDict(extra="ignore")

    resolved: bool
    patch_successfully_applied: bool = False
    infra_failure: bool = False
    infra_failure_reason: str = ""
    tests_status: dict[str, dict[str, list[str]]] = {}

    def facts(self) -> dict[str, JsonValue]:
        """For people, short: how many tests, and the first that fail."""
        counts: dict[str, JsonValue] = {
            f"{name.lower()}_{outcome}": len(tests)
            for name, outcomes in self.tests_status.items()
            for outcome, tests in outcomes.items()
            if name in ("FAIL_TO_PASS", "PASS_TO_PASS")
        }
        failing = [test for outcomes in self.tests_status.values() for test in outcomes.get("failure", [])]
        shown: list[JsonValue] = [test[:200] for test in failing[:20]]
        return {**counts, "failing_tests": shown, "infrastructure": self.infra_failure_reason}


def missing_package() -> str:
    """Why nothing can be graded here, or an empty string. Blocks for a second the first time."""
    try:
        importlib.import_module("swebench.harness.grading")
    except ImportError as error:
        return f"the package swebench cannot be used ({error}): {INSTALL}"
    return ""


def test_spec(instance_id: str, image: str, facts: InstanceFacts) -> Any:
    """The instance as ``swebench`` has it. Blocks."""
    utils = importlib.import_module("swebench.harness.utils")
    return utils.make_test_spec(
        {
            "instance_id": instance_id,
            "image": image,
            "repo": facts.repo,
            "version": facts.version,
            "FAIL_TO_PASS": facts.fail_to_pass,
            "PASS_TO_PASS": facts.pass_to_pass,
            "log_parser": facts.log_parser,
            "eval_type": facts.eval_type,
            "eval_script": facts.eval_script,
        }
    )


def grade(instance_id: str, spec: Any, patch: str, log: bytes) -> Report:
    """The report on a log of the evaluation script. Blocks."""
    grading = importlib.import_module("swebench.harness.grading")
    with tempfile.TemporaryDirectory(prefix="agentcompass-swebench-") as folder:
        path = Path(folder) / "test_output.txt"
        # It is read there in the locale's encoding, which for a worker is UTF-8; stray bytes are replaced here.
        path.write_text(log.decode("utf-8", "replace"), encoding="utf-8")
        prediction = {"instance_id": instance_id, "model_name_or_path": "agentcompass", "model_patch": patch}
        try:
            found = grading.get_eval_report(spec, prediction, str(path), include_tests_status=True)
        except (KeyError, ValueError) as error:  # a parser or a kind of evaluation that this version lacks
            message = f"swebench cannot grade {instance_id!r}: {type(error).__name__}: {error}"
            raise StageFailure.fatal(IssuePhase.EVALUATE, IssueCode.EVALUATION_FAILED, message) from error
    return Report.model_validate(found[instance_id])
