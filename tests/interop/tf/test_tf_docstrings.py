"""Public docstrings of the front ends for TensorFlow and Keras, as ``tests/docs`` looks at those of the others."""

from __future__ import annotations

from importlib import import_module

import pytest

from tests.docs.public_names import failed_examples, faults, public_names


@pytest.mark.parametrize("namespace", ["dyn.interop.tf", "dyn.interop.keras"])
def test_docstrings_are_whole(namespace: str) -> None:
    names = list(public_names(import_module(namespace)))
    wrong = [f"{name.path}: {fault}" for name in names for fault in faults(name)]
    assert names
    assert not wrong, "\n".join(wrong)
    failed = failed_examples(names)
    assert not failed, failed
