"""Merging layers: maps merge, lists and single values replace, network policies replace as a whole."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from dataclasses import dataclass, field

from .places import Layer, Origin, Path, Tree

POLICY_KEYS = frozenset({"network_policy", "run_network_policy", "verifier_network_policy"})


@dataclass
class Merged:
    """Merged values, and the origin of each that no map merging can take apart any more."""

    data: Tree = field(default_factory=dict)
    places: dict[Path, Origin] = field(default_factory=dict)


def merge_layers(layers: Iterable[Layer]) -> Merged:
    """Merge ``layers``, lowest precedence first."""
    merged = Merged()
    for layer in layers:
        _merge(merged, merged.data, layer, layer.data, ())
    return merged


def _merge(merged: Merged, target: Tree, layer: Layer, source: Tree, path: Path) -> None:
    for key, value in source.items():
        place = (*path, key)
        if isinstance(value, dict) and not is_policy(place):
            below = target.get(key)
            if not isinstance(below, dict):
                _forget(merged, place)
                below = target[key] = {}
            if not value and not below:
                merged.places[place] = layer.origin(place)
            _merge(merged, below, layer, value, place)
        else:
            _forget(merged, place)
            target[key] = copy.deepcopy(value)
            merged.places[place] = layer.origin(place)


def is_policy(path: Path) -> bool:
    """True for a network policy of the environment."""
    return len(path) == 2 and path[0] == "environment" and path[1] in POLICY_KEYS


def _forget(merged: Merged, path: Path) -> None:
    for known in [item for item in merged.places if item[: len(path)] == path]:
        del merged.places[known]
