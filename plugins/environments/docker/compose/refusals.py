"""Keys of compose files that are refused, with the reason. What is not known at all is refused, too."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from .document import ComposeError

_MACHINE = "it would reach into the engine's machine"
_RIGHTS = "services have no rights beyond those of a sandbox"
_FILES = "the file must say all itself"
SERVICE: Mapping[str, str] = {
    "network_mode": "services have the network of their task, and its policy",
    "pid": _MACHINE,
    "ipc": _MACHINE,
    "uts": _MACHINE,
    "cgroup": _MACHINE,
    "cgroup_parent": _MACHINE,
    "userns_mode": _MACHINE,
    "devices": _MACHINE,
    "device_cgroup_rules": _MACHINE,
    "volumes_from": _MACHINE,
    "use_api_socket": _MACHINE,
    "ports": "nothing is published on the engine's machine; services reach one another without it (expose)",
    "cap_add": _RIGHTS,
    "group_add": _RIGHTS,
    "security_opt": _RIGHTS,
    "sysctls": _RIGHTS,
    "runtime": _RIGHTS,
    "credential_spec": _RIGHTS,
    "oom_kill_disable": _RIGHTS,
    "oom_score_adj": _RIGHTS,
    "gpus": "only the service main has GPUs, those of task.toml",
    "env_file": _FILES,
    "extends": _FILES,
    "label_file": _FILES,
    "configs": _FILES,
    "secrets": "a task has no secrets of the worker",
    "dns": "the network policy decides what is reached",
    "dns_search": "the network policy decides what is reached",
    "extra_hosts": "the network policy decides what is reached",
    "links": "services find one another by their names",
    "external_links": "services find one another by their names",
    "profiles": "all services of a task are started",
    "scale": "each service has one container",
    "read_only": "it is not supported for services",
    "logging": "the logs of services are kept with the attempt",
    "develop": "it is for developing",
    "provider": "services are containers",
    "post_start": "it is not supported",
    "pre_stop": "it is not supported",
}
TOP: Mapping[str, str] = {
    "include": _FILES,
    "configs": _FILES,
    "secrets": "a task has no secrets of the worker",
    "models": "services are containers",
}
BUILD: Mapping[str, str] = {
    "additional_contexts": "a build sees its context only",
    "ssh": "a build has no keys of the worker",
    "secrets": "a build has no secrets of the worker",
    "network": "builds use the network of public sandboxes",
    "privileged": _RIGHTS,
    "entitlements": _RIGHTS,
    "extra_hosts": "builds use the network of public sandboxes",
}


def require_known(place: str, keys: Iterable[str], known: Iterable[str], refused: Mapping[str, str]) -> None:
    """Raise ``ComposeError`` for the first key that is not to be honoured."""
    known = set(known)
    for key in keys:
        if key in known:
            continue
        where = f"{place}.{key}" if place else key
        if key in refused:
            raise ComposeError(f"{where}: {refused[key]}")
        raise ComposeError(f"{where}: this key is not understood; understood are {', '.join(sorted(known))}")
