"""``agentcompass doctor``: what works on this machine, and what to do about the rest.

Every check looks and changes nothing: no server or worker is started, no image pulled, no token spent,
and of credentials only whether they are there is told.
"""

from .diagnosis import DoctorOptions, diagnose
from .finding import DoctorReport, Finding, State

__all__ = ["DoctorOptions", "DoctorReport", "Finding", "State", "diagnose"]
