"""The environment ``modal``: a sandbox at Modal for each task."""

from .params import ModalParams
from .provider import Modal

__all__ = ["Modal", "ModalParams"]
