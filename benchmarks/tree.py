"""Trees of parameters (nested dicts and lists), and how they travel to another process: as a safetensors file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np


def map_leaves(fn: Callable[[str, Any], Any], tree: Any, name: str = "") -> Any:
    """A tree of ``fn(key, leaf)``, where ``key`` is the innermost key."""
    if isinstance(tree, dict):
        return {key: map_leaves(fn, value, key) for key, value in tree.items()}
    if isinstance(tree, list):
        return [map_leaves(fn, value, name) for value in tree]
    return fn(name, tree)


def flatten(tree: Any, prefix: str = "") -> dict[str, np.ndarray]:
    """``{"layers/0/query/bias": array, …}``"""
    if isinstance(tree, dict | list):
        items = tree.items() if isinstance(tree, dict) else enumerate(tree)
        flat: dict[str, np.ndarray] = {}
        for key, value in items:
            flat |= flatten(value, f"{prefix}/{key}" if prefix else str(key))
        return flat
    return {prefix: tree}


def unflatten(flat: dict[str, np.ndarray]) -> Any:
    """The inverse of ``flatten``; keys that are all numbers make a list."""
    tree: dict[str, Any] = {}
    for name, value in flat.items():
        *folders, last = name.split("/")
        node = tree
        for folder in folders:
            node = node.setdefault(folder, {})
        node[last] = value
    return _lists(tree)


def _lists(tree: Any) -> Any:
    if not isinstance(tree, dict):
        return tree
    if tree and all(key.isdecimal() for key in tree):
        return [_lists(tree[key]) for key in sorted(tree, key=int)]
    return {key: _lists(value) for key, value in tree.items()}


def save_tree(tree: Any, path: Path) -> None:
    from safetensors.numpy import save_file

    save_file(flatten(tree), path)


def load_tree(path: Path) -> Any:
    from safetensors.numpy import load_file

    return unflatten(load_file(path))
