"""Keras's layers over symbolic inputs, for every size by one program each."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest

import dyn.interop.tf as dtf
from tests.interop.tf import layers as table
from tests.interop.tf.comparing import alike, check, tf

keras, layers = tf.keras, tf.keras.layers
_rng = np.random.default_rng(0)


@pytest.mark.parametrize("kind", sorted(table.TABLE))
def test_layers(kind: str) -> None:
    model = table.model(kind, table.TABLE[kind])
    check(lambda x: model(x, training=False), [(table.given(kind, one),) for one in table.CALLS[kind]], tolerance=1e-4)


@pytest.mark.parametrize("kind", sorted(table.BY_SIZES))
def test_layers_that_need_sizes(kind: str) -> None:
    calls = [(table.given(kind, one),) for one in table.CALLS[kind]]
    for make in table.BY_SIZES[kind].values():
        model = table.model(kind, {"made": make})
        check(lambda x, model=model: model(x, training=False), calls, tolerance=1e-4, compiles=len(calls))


def test_augmentation_in_training() -> None:
    made = {name: make() for name, make in table.AUGMENTATIONS.items()}
    seeds = [one.state for layer in made.values() for part in layer._flatten_layers() for one in part._seed_generators]

    @tf.autograph.experimental.do_not_convert
    def run(x: Any) -> Any:
        return {name: layer(x, training=True) for name, layer in made.items()}

    graph = tf.function(run, input_signature=[tf.TensorSpec([None, None, None, 3])])
    compiled = dtf.jit(run, strict=True)
    for size in table.CALLS["image"]:
        x = tf.constant(_rng.uniform(0, 255, (*size, 3)).astype("f4"))
        before = [tf.identity(seed) for seed in seeds]
        wanted = graph(x)
        after = [tf.identity(seed) for seed in seeds]
        for seed, value in zip(seeds, before, strict=True):
            seed.assign(value)
        alike(compiled(x), wanted, 2e-3, str(size))
        for seed, value in zip(seeds, after, strict=True):
            np.testing.assert_array_equal(seed, value)
    assert compiled.cache_info().compiles == 1


def test_each_class_of_layers_is_somewhere() -> None:
    known = {name for tables in (table.TABLE, table.BY_SIZES) for names in tables.values() for name in names}
    classes: dict[type, set[str]] = {}
    own = importlib.import_module("keras").layers  # tf.keras has some of Keras 2 beside
    for name in dir(own):
        if isinstance(getattr(own, name), type):
            classes.setdefault(getattr(own, name), set()).add(name)
    assert [names for names in classes.values() if not names & {*known, *table.OTHERS}] == []


def test_a_recommender_whose_strings_are_looked_up_outside() -> None:
    people, films = (layers.StringLookup(vocabulary=words) for words in (["ann", "bob"], ["up", "wall-e", "heat"]))

    class Recommender(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.people, self.films = layers.Embedding(3, 8), layers.Embedding(4, 8)

        def call(self, given: Any) -> Any:
            who, what = self.people(given["who"]), self.films(given["what"])
            return tf.einsum("bd,bnd->bn", who, what)

    model = Recommender()
    batches = [(["ann"], [["up", "heat"]]), (["bob", "eve"], [["heat"] * 3, ["up", "jaws", "wall-e"]])]
    calls = [({"who": people(tf.constant(who)), "what": films(tf.constant(what))},) for who, what in batches]
    model(calls[0][0])
    check(model, calls)
    whole = dtf.jit(lambda who, what: model({"who": people(who), "what": films(what)}))
    strings = [(tf.constant(who), tf.constant(what)) for who, what in batches]
    with pytest.warns(dtf.FallbackWarning, match="string"):  # inside, they are TensorFlow's
        results = [whole(*given) for given in strings]
    for made, given in zip(results, calls, strict=True):
        alike(made, model(*given))


@pytest.mark.filterwarnings("ignore:__array__ implementation")  # Keras's own, of its variables
def test_a_model_that_is_saved_and_loaded_between_calls(tmp_path: Any) -> None:
    given = keras.Input((None, 4))
    model = keras.Model(given, layers.Dense(2)(layers.GRU(3)(given)))
    compiled = dtf.jit(model, strict=True)
    x = [tf.constant(_rng.normal(size=size).astype("f4")) for size in ((2, 5, 4), (3, 1, 4))]
    before = compiled(x[0])
    path = str(tmp_path / "model.keras")
    model.save(path)
    for variable in model.variables:
        variable.assign(tf.zeros_like(variable))
    np.testing.assert_array_equal(compiled(x[0]), tf.zeros((2, 2)))
    loaded = dtf.jit(keras.models.load_model(path), strict=True)
    np.testing.assert_array_equal(loaded(x[0]), before)
    model.set_weights(loaded.get_weights())  # into the variables that the first program reads
    for one in x:
        np.testing.assert_array_equal(compiled(one), loaded(one))
    keras.Model.export(model, str(tmp_path / "saved"), verbose=False)
    np.testing.assert_allclose(dtf.load(str(tmp_path / "saved"))(x[1]), compiled(x[1]), atol=1e-6)
    assert compiled.cache_info().compiles == loaded.cache_info().compiles == 1
