"""Configuration: files, variables, flags and SDK arguments, resolved into one request."""

from .arguments import LATEST, RunArguments
from .launch_file import LaunchArguments, ResolvedLaunch, resolve_launch
from .listing import ShownValue, effective_values, file_values, masked_spec, spec_values
from .places import Origin
from .resolve import ResolvedRun, resolve_run
from .secret_store import (
    HomeSecretStore,
    StoreLiteral,
    cluster_store,
    leave_literal,
    refuse_literal,
    refuse_literal_of_schedule,
)

__all__ = [
    "LATEST",
    "HomeSecretStore",
    "LaunchArguments",
    "Origin",
    "ResolvedLaunch",
    "ResolvedRun",
    "RunArguments",
    "ShownValue",
    "StoreLiteral",
    "cluster_store",
    "effective_values",
    "file_values",
    "leave_literal",
    "masked_spec",
    "refuse_literal",
    "refuse_literal_of_schedule",
    "resolve_launch",
    "resolve_run",
    "spec_values",
]
