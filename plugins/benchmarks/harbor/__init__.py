"""Tasks in Harbor's folder format."""

from .benchmark import Harbor
from .params import HarborParams

__all__ = ["Harbor", "HarborParams"]
