"""Harbor task folders for tests."""

from __future__ import annotations

from pathlib import Path

FIXTURES = Path(__file__).parents[1] / "data" / "harbor"
TASKS = FIXTURES / "tasks"
"""Three tasks that need no image."""
IMAGES = FIXTURES / "images"
"""Three tasks that need containers, on the base image of the Docker tests."""
STEPS = FIXTURES / "steps"
"""Three tasks of several steps that need no image."""
STEPPED_IMAGES = FIXTURES / "stepped_images"
"""One of several steps that needs containers."""
SERVICES = FIXTURES / "services"
"""Two tasks whose agent needs a service beside it; one has a separate verifier."""


def make_task(folder: Path, toml: str = "", **files: str) -> Path:
    """A small task; ``files`` maps paths, with ``__`` for a slash and ``_dot_`` for a dot, to content."""
    for name, content in {
        "task_dot_toml": toml,
        "instruction_dot_md": "Do it.",
        "environment___dot_keep": "",
        "tests__test_dot_sh": "#!/bin/sh\necho 1 > /logs/verifier/reward.txt\n",
        **files,
    }.items():
        path = folder / name.replace("__", "/", 1).replace("_dot_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
    return folder


def make_steps(folder: Path, toml: str, steps: dict[str, dict[str, str]]) -> Path:
    """A task of several steps, each with files by their paths; tests are shared where a step has none."""
    make_task(folder, toml)
    for name, files in steps.items():
        for path, content in {"instruction.md": f"Do {name}.", **files}.items():
            place = folder / "steps" / name / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(content, encoding="utf-8")
    return folder
