"""Converters take what PyTorch passes: arguments by position, and by name those that its schemas have after ``*``."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")

import dyn.interop.torch as dyn_torch  # noqa: E402
from dyn.interop.torch import converters  # noqa: E402

_ = dyn_torch  # fills the tables


def is_random(operation: Any) -> bool:
    """Whether its converter is given a key, before what PyTorch passes."""
    converter = converters.CONVERTERS.get(operation)
    return converter is not None and next(iter(inspect.signature(converter.run).parameters)) == "key"


def gives_several(operation: Any) -> bool:
    return str(operation._schema.returns[0].type) == "List[Tensor]"


#: The functions by operations, with how many arguments they get beside those of the schema: of a view that is one of
#: several its place, and the shapes of all of them.
FUNCTIONS: dict[str, tuple[Any, Callable[..., Any], int]] = {
    **{str(op): (op, converter.run, 0) for op, converter in converters.CONVERTERS.items()},
    **{str(op): (op, run, 0) for op, run in converters.IN_PLACE.items()},
    **{str(op): (op, view.read, 2 * gives_several(op)) for op, view in converters.VIEWS.items()},
}


#: Who defines the operations that are known by their names.
LIBRARIES = {"transformers": "transformers.integrations.moe", "prims": "torch._inductor.inductor_prims"}


def of_library(name: str) -> Any:
    """The operation of a name, ``library::operation``, once its library is imported."""
    library, _, packet = name.partition("::")
    importlib.import_module(LIBRARIES[library])
    return getattr(getattr(torch.ops, library), packet).default


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_converter_takes_the_arguments_of_its_schema(name: str) -> None:
    operation, function, more = FUNCTIONS[name]
    operation = of_library(operation) if isinstance(operation, str) else operation
    arguments = operation._schema.arguments
    positions = [argument for argument in arguments if not argument.kwarg_only]
    names = [argument for argument in arguments if argument.kwarg_only]
    signature = inspect.signature(function)  # of the function that was registered
    more += next(iter(signature.parameters)) == "tracing"
    if is_random(operation):  # a key comes first, and nobody's generator
        more += 1
        positions, names = ([one for one in part if one.name != "generator"] for part in (positions, names))
    # PyTorch leaves out arguments that are their defaults, from the last one on.
    for count in range(sum(not argument.has_default_value() for argument in positions), len(positions) + 1):
        for given in (names, [argument for argument in names if not argument.has_default_value()]):
            signature.bind(*[None] * (count + more), **{argument.name: None for argument in given})
