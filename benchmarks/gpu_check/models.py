"""Models, small and whole: the six families of the streams, decoding, BERT, a step of training, and programs of
front ends that were written down. Each is compiled once, and held to the reference at each size."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import dyn
from benchmarks.gpu.families import DECODING, FAMILIES, Config, Family, weights
from benchmarks.gpu.namespaces import DynOps
from benchmarks.gpu_check.checks import Check, Options, compare, there
from benchmarks.gpu_check.written import written_programs
from dyn import tree
from examples import bert, gpt, optimizers

SMALL = Config(layers=1, width=16, heads=2, longest=12, largest_batch=3)
#: Sums of products of a whole model, whose order the reference does not have.
_MODEL = 40.0


def checks() -> tuple[Check, ...]:
    """A check for each model."""
    families = {**FAMILIES, "decoding": DECODING}
    return (
        *[Check(name, functools.partial(_family, family)) for name, family in families.items()],
        Check("BERT with a mask", _bert),
        Check("a step of training", _training),
        *[Check(name, run) for name, run in written_programs().items()],
    )


def _hold(function: Any, calls: Sequence[tuple[Any, ...]], reference: Any = None) -> Mapping[str, object]:
    """Compare a function's calls with the reference's: its own, unless another is given."""
    reference = function.reference if reference is None else reference
    for arguments in calls:
        found = function(*arguments)
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            wanted = reference(*arguments)
        compare(found, wanted, [np.shape(leaf) for leaf in tree.leaves(arguments)], _MODEL)
    compiles = function.cache_info().compiles
    if compiles != 1:
        raise AssertionError(f"{compiles} programs were compiled for {len(calls)} shapes, and not one")
    return {"shapes": len(calls)}


def _family(family: Family, options: Options) -> Mapping[str, object]:
    params, rng = weights(family, SMALL, 0), np.random.default_rng(0)

    def jitted(device: str) -> Any:
        own = tree.map(dyn.asarray, params)
        return dyn.jit(functools.partial(family.run, DynOps(), SMALL, own), device=device)

    reference = jitted("cpu").reference
    return _hold(jitted(options.device), [family.draw(rng, SMALL) for _ in range(3)], reference=reference)


def _bert(options: Options) -> Mapping[str, object]:
    config = bert.BertConfig(layers=1, width=24, heads=3, intermediate=40, vocabulary=50, positions=40)
    params: Any = bert.init_params(config, 0)

    @dyn.jit(shapes="b s, b s", constraints="s <= 40", device=options.device)
    def model(ids: Any, mask: Any) -> Any:
        hidden = bert.encode(params, ids, mask, config=config)
        return hidden, bert.pool(params, hidden)

    return _hold(model, [bert.draw_batch(shape, 0, config) for shape in ((2, 7), (1, 1), (3, 40), (0, 7))])


def _training(options: Options) -> Mapping[str, object]:
    """Loss, gradients and Adam in one program, on parameters that stay on the device."""
    config = gpt.GptConfig(layers=1, width=16, heads=2, vocabulary=30, positions=40)
    adam = optimizers.adam(0.01, eps=1e-3)  # with less, gradients that are 0 but for rounding would count

    def step(params: Any, state: Any, ids: Any) -> Any:
        value, gradients = dyn.value_and_grad(functools.partial(gpt.loss, ids=ids, config=config))(params)
        updates, state = adam.update(gradients, state, params)
        return value, optimizers.apply_updates(params, updates), state

    first: Any = gpt.init_params(config)
    shapes: Any = [gpt.shapes_of(first), gpt.shapes_of(adam.init(first)), "b s"]
    train = dyn.jit(step, shapes=shapes, device=options.device)
    state = there(options.device, (first, adam.init(first)))
    here: Any = (first, adam.init(first))
    rng = np.random.default_rng(0)
    for count, length in ((2, 9), (1, 2), (2, 34)):
        ids = rng.integers(0, 30, (count, length))
        loss, *found = train(*state, ids)
        wanted, *expected = train.reference(*here, ids)
        compare((loss, found), (wanted, expected), (count, length), 50)
        state, here = tuple(found), tree.map(lambda x: x.to_numpy(), tuple(found))
    if train.cache_info().compiles != 1:
        raise AssertionError(f"{train.cache_info().compiles} programs were compiled, and not one")
    return {"loss": float(loss)}
