"""SWE-bench Verified: issues of Python projects, judged by the projects' tests."""

from .benchmark import SweBenchVerified, SweBenchVerifiedParams

__all__ = ["SweBenchVerified", "SweBenchVerifiedParams"]
