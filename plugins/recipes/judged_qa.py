"""Judged questions in sandboxes: an image with Python where none is named."""

from __future__ import annotations

from .python_image import PythonImage


class JudgedQaDocker(PythonImage):
    """For the environment ``docker``."""

    id = "judged_qa_docker"
    description = "Judged questions on docker: an image with Python where none is named"
    benchmark = "judged_qa"
    environment = "docker"


class JudgedQaDaytona(PythonImage):
    """For the environment ``daytona``."""

    id = "judged_qa_daytona"
    description = "Judged questions on daytona: an image with Python where none is named"
    benchmark = "judged_qa"
    environment = "daytona"


class JudgedQaModal(PythonImage):
    """For the environment ``modal``."""

    id = "judged_qa_modal"
    description = "Judged questions on modal: an image with Python where none is named"
    benchmark = "judged_qa"
    environment = "modal"
