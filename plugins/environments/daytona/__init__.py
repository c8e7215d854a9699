"""The environment ``daytona``: a sandbox at Daytona for each task."""

from .params import DaytonaParams
from .provider import Daytona

__all__ = ["Daytona", "DaytonaParams"]
