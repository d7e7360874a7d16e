"""Random numbers: TensorFlow's own bits (Philox) where an operation is given a seed, and dyn's where it is not.

Philox is "Parallel Random Numbers: As Easy as 1, 2, 3" (Salmon and others, 2011), in the form of TensorFlow's
``PhiloxRandom``: ten rounds of four words, whose counter goes up by one for each four words.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

import dyn.numpy as dnp
from dyn import lax, random
from dyn.errors import UnsupportedOpError
from dyn.interop.tf.converter_registry import takes_call
from dyn.interop.tf.values import known_dtype
from dyn.trace.tracer import Tracer

#: Operations that draw from TensorFlow's own generator: a program with one is given a seed.
DRAWING = frozenset(
    (
        "RandomUniform",
        "RandomStandardNormal",
        "TruncatedNormal",
        "RandomUniformInt",
        "RandomShuffle",
        "Multinomial",
    )
)
#: The state of these: the seed that a call is given, and how often it has drawn.
SEED, DRAWN = "seed", "drawn"

_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_STEPS = (0x9E3779B9, 0xBB67AE85)
_ROUNDS = 10
_SCRAMBLE = (0x3EC8F720, 0x02461E29)
_LOW = np.uint64(0xFFFFFFFF)
_PHILOX, _AUTOMATIC = 1, 3


def _halves(words: Any) -> tuple[Any, Any]:
    """The low and the high 32 bits of uint64, each as uint64."""
    return words & _LOW, words >> np.uint64(32)


def _philox(counter: Sequence[Any], key: Sequence[Any]) -> list[Any]:
    """Four words of 32 bits for each counter; all are held in uint64."""
    c, (k0, k1) = list(counter), key
    for number in range(_ROUNDS):
        if number:
            k0, k1 = (k0 + np.uint64(_STEPS[0])) & _LOW, (k1 + np.uint64(_STEPS[1])) & _LOW
        low0, high0 = _halves(c[0] * np.uint64(_MULTIPLIERS[0]))
        low1, high1 = _halves(c[2] * np.uint64(_MULTIPLIERS[1]))
        c = [high1 ^ c[1] ^ k0, low1, high0 ^ c[3] ^ k1, low0]
    return c


def _words(key: Tracer, counter: Tracer, count: Any) -> Any:
    """``count`` words for a key (uint64 of one element) and a counter (of two), in uint64."""
    groups = (count + 3) // 4
    number = dnp.arange(groups).astype("uint64")
    low = counter[0] + number
    high = counter[1] + (low < number).astype("uint64")
    made = _philox([*_halves(low), *_halves(high)], _halves(key[0]))
    return dnp.reshape(dnp.stack(made, axis=1), (-1,))[:count]


@takes_call("StatelessRandomGetKeyCounter")
def key_counter(call: Any) -> Any:
    """The key and the counter of a seed, mixed by one round of the generator."""
    seed = call.value(0).astype("int64")
    words = lax.bitcast_convert_type(seed, "uint64")
    made = _philox([*_halves(words[0]), *_halves(words[1])], [dnp.asarray(one, dtype="uint64") for one in _SCRAMBLE])
    key = made[0] | (made[1] << np.uint64(32))
    rest = made[2] | (made[3] << np.uint64(32))
    return [dnp.reshape(key, (1,)), dnp.stack([dnp.zeros((), dtype="uint64"), rest])]


@takes_call("StatelessRandomGetAlg")
def algorithm(call: Any) -> Any:
    return np.array(_PHILOX, np.int32)


def _drawn(call: Any) -> tuple[Any, Any]:
    """The words of a call that is given a key, a counter and an algorithm; and its shape."""
    if int(call.numbers(3)) not in (_PHILOX, _AUTOMATIC):
        raise UnsupportedOpError(f"{call.node.op} by another algorithm than Philox.", remedy="leave out alg=.")
    shape = tuple(call.sizes(0))
    return _words(call.value(1), call.value(2), math.prod(shape)), shape


def _unit(words: Any) -> Any:
    """Floats from 0 to 1 of 23 bits each."""
    bits = (words & np.uint64(0x7FFFFF)) | np.uint64(0x3F800000)
    return lax.bitcast_convert_type(bits.astype("uint32"), "float32") - np.float32(1)


@takes_call("StatelessRandomUniformV2")
def stateless_uniform(call: Any) -> Any:
    _check_float(call)
    words, shape = _drawn(call)
    return dnp.reshape(_unit(words), shape)


def _check_float(call: Any) -> None:
    if call.attr("dtype") != "float32":
        raise UnsupportedOpError(f"{call.node.op} of {call.attr('dtype')}.", remedy="draw float32, and convert.")


@takes_call("StatelessRandomNormalV2")
def stateless_normal(call: Any) -> Any:
    """By Box and Muller's method, two numbers of two words each."""
    _check_float(call)
    if int(call.numbers(3)) not in (_PHILOX, _AUTOMATIC):
        raise UnsupportedOpError(f"{call.node.op} by another algorithm than Philox.")
    shape = tuple(call.sizes(0))
    count = math.prod(shape)
    pairs = dnp.reshape(_words(call.value(1), call.value(2), (count + 3) // 4 * 4), (-1, 2))
    radius = dnp.sqrt(np.float32(-2) * dnp.log(dnp.maximum(_unit(pairs[:, 0]), np.float32(1e-7))))
    angle = np.float32(2 * math.pi) * _unit(pairs[:, 1])
    made = dnp.stack([dnp.sin(angle) * radius, dnp.cos(angle) * radius], axis=1)
    return dnp.reshape(dnp.reshape(made, (-1,))[:count], shape)


@takes_call("StatelessRandomUniformIntV2")
def stateless_integers(call: Any) -> Any:
    """Words by the remainder, as TensorFlow has it."""
    if call.attr("dtype") not in ("int32", "uint32"):
        raise UnsupportedOpError(f"{call.node.op} of {call.attr('dtype')}.", remedy="draw int32, and convert.")
    words, shape = _drawn(call)
    low, high = call.value(4), call.value(5)
    width = (high.astype("int64") - low.astype("int64")).astype("uint64")
    return dnp.reshape(low + (words % width).astype(low.dtype), shape)


# ---- without a seed --------------------------------------------------------------------------------------------------


def key_of_draw(call: Any) -> Any:
    """A key of its own for each operation that draws, and each time that it does."""
    state = call.evaluation.state
    drawn = state.get(DRAWN)
    state.set(DRAWN, drawn + np.uint32(1))
    return random.fold_in(random.key(state.get(SEED)), drawn)


@takes_call("RandomUniform")
def uniform(call: Any) -> Any:
    return random.uniform(key_of_draw(call), tuple(call.sizes(0)), known_dtype(call.attr("dtype")).np)


@takes_call("RandomStandardNormal")
def normal(call: Any) -> Any:
    return random.normal(key_of_draw(call), tuple(call.sizes(0)), known_dtype(call.attr("dtype")).np)


@takes_call("TruncatedNormal")
def truncated_normal(call: Any) -> Any:
    return random.truncated_normal(
        key_of_draw(call), -2.0, 2.0, tuple(call.sizes(0)), known_dtype(call.attr("dtype")).np
    )


@takes_call("RandomUniformInt")
def integers(call: Any) -> Any:
    dtype = known_dtype(call.attr("Tout")).np
    return random.randint(key_of_draw(call), tuple(call.sizes(0)), call.value(1), call.value(2), dtype)


@takes_call("RandomShuffle")
def shuffle(call: Any) -> Any:
    return random.permutation(key_of_draw(call), call.value(0))
