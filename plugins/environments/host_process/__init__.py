"""The environment ``host_process``: trusted work on the worker's own machine, not isolated."""

from .params import HostProcessParams
from .provider import HostProcess
from .session import HostProcessSession

__all__ = ["HostProcess", "HostProcessParams", "HostProcessSession"]
