"""Sandboxes that are reached by single calls over a network: commands, processes and files in them."""

from .channel import Channel
from .limits import RemoteLimits
from .preparation import Prepared, prepared
from .session import RemoteSession
from .shell import Shell

__all__ = ["Channel", "Prepared", "RemoteLimits", "RemoteSession", "Shell", "prepared"]
