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
from dyn.trace.dims import max_dim
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
#: The state of these: the seed that a call is given, with the number of the call in its high half; and how often the
#: call has drawn.
SEED, DRAWN = "seed", "drawn"
#: The attributes of these that say a seed.
SEEDS = ("seed", "seed2")
#: The first of them where an operation has a seed of its own, ``seed2``, and ``tf.random.set_seed`` has said none.
_OWN_SEED = 87654321

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


def _groups(key: Tracer, counter: Tracer, number: Any) -> list[Any]:
    """Four words, in uint64, for each number of a group (uint64): of a key (of one element) and a counter (of two)."""
    low = counter[0] + number
    high = counter[1] + (low < number).astype("uint64")
    return _philox([*_halves(low), *_halves(high)], _halves(key[0]))


def _words(key: Tracer, counter: Tracer, count: Any) -> Any:
    """``count`` words for a key (uint64 of one element) and a counter (of two), in uint64."""
    made = _groups(key, counter, dnp.arange((count + 3) // 4).astype("uint64"))
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


def _drawn(call: Any, words: int = 1, multiple: int = 1) -> Any:
    """``words`` random words in uint64 for each element that is drawn, and for as many more as make a ``multiple``."""
    count = -(-math.prod(call.sizes(0)) // multiple) * multiple
    return _words(*_generator(call), count * words)


def _generator(call: Any) -> tuple[Any, Any]:
    """The key and the counter that a call is given, if its algorithm is Philox."""
    if int(call.numbers(3)) not in (_PHILOX, _AUTOMATIC):
        raise UnsupportedOpError(f"{call.node.op} by another algorithm than Philox.", remedy="leave out alg=.")
    return call.value(1), call.value(2)


def _shaped(call: Any, made: Any) -> Any:
    """Elements in the shape that is asked for; there may be more of them."""
    shape = tuple(call.sizes(0))
    return dnp.reshape(dnp.reshape(made, (-1,))[: math.prod(shape)], shape)


#: Floats from 0 to 1, by dtype: their bits, those of 1, and the unsigned integer that holds them.
_FRACTIONS = {
    "float16": (10, 0x3C00, "uint16"),
    "bfloat16": (7, 0x3F80, "uint16"),
    "float32": (23, 0x3F800000, "uint32"),
    "float64": (52, 0x3FF0000000000000, "uint64"),
}


def _unit(words: Any, dtype: str = "float32") -> Any:
    """Floats from 0 to 1, of as many bits of a word as their fractions have."""
    bits, one, holder = _FRACTIONS[dtype]
    held = ((words & np.uint64((1 << bits) - 1)) | np.uint64(one)).astype(holder)
    return lax.bitcast_convert_type(held, known_dtype(dtype).np) - dnp.ones((), dtype=known_dtype(dtype).np)


def _double(high: Any, low: Any) -> Any:
    """Floats from 0 to 1 of two words each."""
    return _unit((high << np.uint64(32)) | low, "float64")


@takes_call("StatelessRandomUniformV2", attrs=["dtype"])
def stateless_uniform(call: Any) -> Any:
    dtype = call.attr("dtype")
    if dtype != "float64":
        return _shaped(call, _unit(_drawn(call), dtype))
    pairs = dnp.reshape(_drawn(call, 2), (-1, 2))
    return _shaped(call, _double(pairs[:, 0], pairs[:, 1]))


def _normals(words: Sequence[Any], dtype: str) -> list[Any]:
    """Of four words four normal numbers, in float64 two: by Box and Muller's method, two of two uniform ones each."""
    if dtype == "float64":
        units = [_double(words[0], words[1]), _double(words[2], words[3])]
    else:
        units = [_unit(word) for word in words]
    made: list[Any] = []
    for first, second in zip(units[::2], units[1::2], strict=True):
        exact = first.dtype.type
        radius = dnp.sqrt(exact(-2) * dnp.log(dnp.maximum(first, exact(1e-7))))
        angle = exact(2 * math.pi) * second
        made += [dnp.sin(angle) * radius, dnp.cos(angle) * radius]
    return made


@takes_call("StatelessRandomNormalV2", attrs=["dtype"])
def stateless_normal(call: Any) -> Any:
    dtype = call.attr("dtype")
    count = 2 if dtype == "float64" else 4
    words = dnp.reshape(_drawn(call, 4 // count, count), (-1, 4))
    made = _normals([words[:, n] for n in range(4)], dtype)
    return _shaped(call, dnp.stack(made, axis=1)).astype(known_dtype(dtype).np)


#: Numbers that are drawn until one fits have so many words for each, and fit below so many deviations.
_RESERVED, _MOST_DEVIATIONS = 256, 2


@takes_call("StatelessTruncatedNormalV2", attrs=["dtype"])
def stateless_truncated_normal(call: Any) -> Any:
    """Normal numbers, of which those that are too large are drawn again: each group of them has words of its own."""
    dtype, (key, counter) = call.attr("dtype"), _generator(call)
    count = 2 if dtype == "float64" else 4
    groups = (math.prod(call.sizes(0)) + count - 1) // count
    group = dnp.arange(groups).astype("uint64") * np.uint64(count * _RESERVED // 4)
    wide = "float64" if dtype == "float64" else "float32"

    def draw(state: Any) -> Any:
        step, found, *kept = state
        for one in _normals(_groups(key, counter, group + step), dtype):
            fits = dnp.abs(one) < _MOST_DEVIATIONS
            kept = [dnp.where(fits & (found == n), one, old) for n, old in enumerate(kept)]
            found = found + fits.astype("int32")
        return step + np.uint64(1), found, *kept

    nothing = [dnp.zeros(group.shape, dtype=wide) for _ in range(count)]
    start = (dnp.zeros((), dtype="uint64"), dnp.zeros(group.shape, dtype="int32"), *nothing)
    made = lax.while_loop(lambda state: dnp.any(state[1] < count), draw, start)[2:]
    return _shaped(call, dnp.stack(made, axis=1)).astype(known_dtype(dtype).np)


def _integers(call: Any, dtype: Any) -> Any:
    """Words as unsigned integers of a dtype's width, held in uint64: one for each, or two."""
    if dtype.itemsize == 4:
        return _drawn(call)
    pairs = dnp.reshape(_drawn(call, 2), (-1, 2))
    return pairs[:, 0] | (pairs[:, 1] << np.uint64(32))


@takes_call("StatelessRandomUniformIntV2")
def stateless_integers(call: Any) -> Any:
    """Words by the remainder, as TensorFlow has it."""
    low, high = call.value(4), call.value(5)
    unsigned = f"uint{low.dtype.itemsize * 8}"
    width = (high.astype(unsigned) - low.astype(unsigned)).astype("uint64")
    return _shaped(call, low + (_integers(call, low.dtype) % width).astype(low.dtype))


@takes_call("StatelessRandomUniformFullIntV2", attrs=["dtype"])
def stateless_any_integers(call: Any) -> Any:
    dtype = known_dtype(call.attr("dtype")).np
    return _shaped(call, _integers(call, dtype).astype(f"uint{dtype.itemsize * 8}").astype(dtype))


@takes_call("StatelessRandomGammaV3")
def stateless_gamma(call: Any) -> Any:
    """By "A Simple Method for Generating Gamma Variables" (Marsaglia and Tsang, 2000), in float64.

    Each element has words of its own, those of all elements with one ``alpha`` before the next. A group of them makes
    two normal or two uniform numbers, of which the second is taken first.
    """
    key, counter = _generator(call)
    shape, alpha = tuple(call.sizes(0)), call.value(4)
    count = math.prod(shape)
    a = dnp.reshape(dnp.broadcast_to(alpha, shape), (-1,)).astype("float64")
    kinds = max_dim(math.prod(alpha.shape), 1)
    number = dnp.arange(count)
    first = (number % kinds * (count // kinds) + number // kinds).astype("uint64") * np.uint64(_RESERVED)
    is_small = a < 1
    d = a + dnp.where(is_small, 2 / 3, -1 / 3)
    c = 1 / (3 * dnp.sqrt(d))

    def uniform(step: Any, left: Any, rest: Any, is_asked: Any) -> tuple[Any, ...]:
        """A uniform number for the elements that ask, and what is left after it."""
        words = _groups(key, counter, first + step)
        is_new = is_asked & (left == 0)
        pair = _double(words[0], words[1]), _double(words[2], words[3])
        made = dnp.where(left == 0, pair[1], rest)
        left = dnp.where(is_asked, 1 - left, left)
        return made, step + is_new.astype("uint64"), left, dnp.where(is_new, pair[0], rest)

    def draw(state: Any) -> Any:
        is_done, made, step, left, rest, uniforms, other = state
        pair = _normals(_groups(key, counter, first + step), "float64")
        x = dnp.where(left == 0, pair[1], rest)
        step = step + ((left == 0) & ~is_done).astype("uint64")
        rest, left = dnp.where(left == 0, pair[0], rest), 1 - left
        root = 1 + c * x
        is_asked = ~is_done & (root > 0)
        v = root * root * root
        u, step, uniforms, other = uniform(step, uniforms, other, is_asked)
        squeezed = u < 1 - 0.0331 * (x * x) * (x * x)
        by_logs = dnp.log(u) < 0.5 * x * x + d * (1 - v + dnp.log(dnp.where(root > 0, v, 1)))
        fits = is_asked & (squeezed | by_logs)
        b, step, uniforms, other = uniform(step, uniforms, other, fits & is_small)
        made = dnp.where(fits, d * v * dnp.where(is_small, dnp.power(b, 1 / a), 1), made)
        return is_done | fits, made, step, left, rest, uniforms, other

    zeros, none = dnp.zeros((count,), dtype="float64"), dnp.zeros((count,), dtype="int32")
    of_one, step, *_ = uniform(dnp.zeros((count,), dtype="uint64"), none, zeros, dnp.ones((count,), dtype="bool"))
    start = (a == 1, -dnp.log1p(-of_one), dnp.zeros_like(step), none, zeros, none, zeros)
    made = lax.while_loop(lambda state: ~dnp.all(state[0]), draw, start)[1]
    return dnp.reshape(made.astype(alpha.dtype), shape)


# ---- without a seed --------------------------------------------------------------------------------------------------


def key_of_draw(call: Any) -> Any:
    """A key of its own for each operation that draws, and each time that it does.

    Of an operation with a seed of its own the keys are the same ones in each process, by the number of the call.
    """
    state, seeds = call.evaluation.state, call.attributes(SEEDS)
    drawn, (low, high) = state.get(DRAWN), _halves(state.get(SEED))
    state.set(DRAWN, drawn + np.uint32(1))
    if seeds.get("seed") != _OWN_SEED:
        return random.fold_in(random.key(low.astype("uint32")), drawn)
    own = random.key(np.uint32(seeds.get("seed2", 0) & 0xFFFFFFFF))
    return random.fold_in(random.fold_in(own, high.astype("uint32")), drawn)


@takes_call("RandomUniform", attrs=["dtype", *SEEDS])
def uniform(call: Any) -> Any:
    return random.uniform(key_of_draw(call), tuple(call.sizes(0)), known_dtype(call.attr("dtype")).np)


@takes_call("RandomStandardNormal", attrs=["dtype", *SEEDS])
def normal(call: Any) -> Any:
    return random.normal(key_of_draw(call), tuple(call.sizes(0)), known_dtype(call.attr("dtype")).np)


@takes_call("TruncatedNormal", attrs=["dtype", *SEEDS])
def truncated_normal(call: Any) -> Any:
    return random.truncated_normal(
        key_of_draw(call), -2.0, 2.0, tuple(call.sizes(0)), known_dtype(call.attr("dtype")).np
    )


@takes_call("RandomUniformInt", attrs=SEEDS)
def integers(call: Any) -> Any:
    dtype = known_dtype(call.attr("Tout")).np
    return random.randint(key_of_draw(call), tuple(call.sizes(0)), call.value(1), call.value(2), dtype)


@takes_call("RandomShuffle", attrs=SEEDS)
def shuffle(call: Any) -> Any:
    return random.permutation(key_of_draw(call), call.value(0))
