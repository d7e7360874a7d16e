"""Modes of PyTorch's Python functions that are active in the functions that operations take, too."""

from __future__ import annotations

import functools
from collections.abc import Callable, Container
from typing import Any

from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_map

from dyn.interop.torch.dynamo import leave_dynamo

#: What is asked of sizes right below is asked by the function that is called here.
CALLS_USERS = True


class FunctionMode(TorchFunctionMode):
    """A mode that sees what is called, in the branches and bodies of ``operations`` as well.

    PyTorch leaves a mode while it handles a call, and these are called there.
    """

    def __init__(self, operations: Container[Any]) -> None:
        super().__init__()
        self.operations = operations

    def call(self, func: Any, args: Any, kwargs: Any) -> Any:
        """The call of a function, with this mode active in the functions that it is given."""
        if func in self.operations:
            leave_dynamo()
            args, kwargs = tree_map(self._active_in, (args, kwargs))
        return func(*args, **kwargs)

    def _active_in(self, leaf: Any) -> Any:
        if not callable(leaf):
            return leaf
        function: Callable[..., Any] = leaf

        def run(*args: Any, **kwargs: Any) -> Any:
            with self:
                return function(*args, **kwargs)

        return functools.update_wrapper(run, function)
