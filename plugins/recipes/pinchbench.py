"""PinchBench in sandboxes: an image with Python where none is named."""

from __future__ import annotations

from .python_image import PythonImage


class PinchBenchDocker(PythonImage):
    """For the environment ``docker``."""

    id = "pinchbench_docker"
    description = "PinchBench on docker: an image with Python where none is named"
    benchmark = "pinchbench"
    environment = "docker"


class PinchBenchDaytona(PythonImage):
    """For the environment ``daytona``."""

    id = "pinchbench_daytona"
    description = "PinchBench on daytona: an image with Python where none is named"
    benchmark = "pinchbench"
    environment = "daytona"


class PinchBenchModal(PythonImage):
    """For the environment ``modal``."""

    id = "pinchbench_modal"
    description = "PinchBench on modal: an image with Python where none is named"
    benchmark = "pinchbench"
    environment = "modal"
