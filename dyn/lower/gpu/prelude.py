"""The functions that generated text calls. A text carries those it uses, each behind a guard of its own, so that texts
can be put one after the other into one translation unit."""

from __future__ import annotations

import re
from collections.abc import Iterable

from dyn.lower.gpu import float8
from dyn.lower.gpu.dialect import Dialect

#: Name to definition, a definition after those it uses. ``FN`` is the head of a device function; other names in
#: capitals are the dialect's.
_HELPERS = {
    "dyn_f16": "struct dyn_f16 { unsigned short bits; };",
    "dyn_bf16": "struct dyn_bf16 { unsigned short bits; };",
    "dyn_f16_to_float": "FN float dyn_f16_to_float(dyn_f16 h) { return HALF_TO_FLOAT; }",
    "dyn_float_to_f16": "FN dyn_f16 dyn_float_to_f16(float x) { return dyn_f16{FLOAT_TO_HALF}; }",
    "dyn_bf16_to_float": """\
FN float dyn_bf16_to_float(dyn_bf16 h) {
    return __int_as_float((int)((unsigned)h.bits << 16));
}""",
    "dyn_float_to_bf16": """\
FN dyn_bf16 dyn_float_to_bf16(float x) {  // to nearest even; NaN stays NaN
FLOAT_TO_BFLOAT
    const unsigned bits = (unsigned)__float_as_int(x);
    const unsigned rounded = bits + 0x7fffu + (bits >> 16 & 1u), quiet = bits | 0x00400000u;
    return dyn_bf16{(unsigned short)((x != x ? quiet : rounded) >> 16)};
}""",
    **float8.HELPERS,
    "dyn_pack": """\
template <class T, int N> struct alignas(sizeof(T) * N < 16 ? sizeof(T) * N : 16) dyn_pack { T v[N]; };""",
    "dyn_copy_async": """\
template <int N> FN void dyn_copy_async(void* to, const void* from, int bytes) {  // what is not copied of N bytes is 0
COPY_ASYNC
}""",
    "dyn_commit_copies": "FN void dyn_commit_copies() { COMMIT_COPIES }",
    "dyn_await_copies": "template <int N> FN void dyn_await_copies() { AWAIT_COPIES }",
    "dyn_read": """\
template <class T, int N> FN void dyn_read(dyn_pack<T, N>& to, const T* from) {
    if ((unsigned long long)from % alignof(dyn_pack<T, N>) == 0) to = *(const dyn_pack<T, N>*)from;
    else
        for (int i = 0; i < N; ++i) to.v[i] = from[i];
}""",
    "dyn_write": """\
template <class T, int N> FN void dyn_write(T* to, const dyn_pack<T, N>& from) {
    if ((unsigned long long)to % alignof(dyn_pack<T, N>) == 0) *(dyn_pack<T, N>*)to = from;
    else
        for (int i = 0; i < N; ++i) to[i] = from.v[i];
}""",
    "dyn_round_to_odd": """\
FN float dyn_round_to_odd(double x) {  // an inexact result gets its last bit set: rounding that once more rounds right
    const float near = (float)x;
    const double back = (double)near;
    if (!(back < x || back > x)) return near;
    const int bits = __float_as_int(near) - (fabs(back) > fabs(x) ? 1 : 0);
    return __int_as_float(bits | 1);
}""",
    "dyn_saturate": """\
template <class T, class F> FN T dyn_saturate(F x, F low, F high, T least, T most) {
    return x >= high ? most : x < low ? least : x == x ? (T)x : (T)0;
}""",
    "dyn_div": """\
template <class T> FN T dyn_div(T a, T b) {  // x / 0 is -1, and MIN / -1 wraps
    if (b == 0) return (T)-1;
    return (T)-1 < (T)1 && b == (T)-1 ? (T)(0ull - (unsigned long long)a) : (T)(a / b);
}""",
    "dyn_rem": """\
template <class T> FN T dyn_rem(T a, T b) {  // x % 0 is x
    if (b == 0) return a;
    return (T)-1 < (T)1 && b == (T)-1 ? (T)0 : (T)(a % b);
}""",
    "dyn_ipow": """\
template <class T> FN T dyn_ipow(T x, T y) {  // wraps; a negative exponent truncates 1 / x**-y towards 0
    if (y < (T)1 && y != (T)0) return x == 1 ? (T)1 : x == (T)-1 ? (y & 1 ? (T)-1 : (T)1) : (T)0;
    unsigned long long base = (unsigned long long)x, result = 1;
    for (unsigned long long n = (unsigned long long)y; n != 0; n >>= 1, base *= base) result *= n & 1 ? base : 1;
    return (T)result;
}""",
    "dyn_shl": """\
template <class T> FN T dyn_shl(T x, T by) {  // by the width or more, or less than 0, all bits leave
    const unsigned long long n = (unsigned long long)by;
    return n < 8 * sizeof(T) ? (T)((unsigned long long)x << n) : (T)0;
}""",
    "dyn_shrl": """\
template <class T> FN T dyn_shrl(T x, T by) {
    const unsigned long long n = (unsigned long long)by, all = ~0ull >> (64 - 8 * sizeof(T));
    return n < 8 * sizeof(T) ? (T)(((unsigned long long)x & all) >> n) : (T)0;
}""",
    "dyn_shra": """\
template <class T> FN T dyn_shra(T x, T by) {  // what moves is the sign, of unsigned numbers too
    const unsigned long long n = (unsigned long long)by, most = 8 * sizeof(T) - 1;
    const long long high = (long long)((unsigned long long)x << (63 - most));
    return (T)(high >> (63 - most) >> (n < most ? n : most));
}""",
    "dyn_bitcast": """\
template <class T, class F> FN T dyn_bitcast(F x) {
    T y;
    memcpy(&y, &x, sizeof(T));
    return y;
}""",
    "dyn_max": """\
template <class T> FN T dyn_max(T a, T b) {  // NaN wins, and -0 is less than +0
GREATER_FLOAT
    return a > b || a != a ? a : b > a || b != b ? b : signbit(a) ? b : a;
}""",
    "dyn_min": """\
template <class T> FN T dyn_min(T a, T b) {  // NaN wins, and -0 is less than +0
LESSER_FLOAT
    return a < b || a != a ? a : b < a || b != b ? b : signbit(a) ? a : b;
}""",
    "dyn_floordiv": """\
FN long long dyn_floordiv(long long a, long long b) {  // a divisor of 0 counts as 1
    if (b == 0) return a;
    if (b == -1) return (long long)(0ull - (unsigned long long)a);
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}""",
    "dyn_mod": """\
FN long long dyn_mod(long long a, long long b) {  // a divisor of 0 counts as 1
    if (b == 0 || b == -1) return 0;
    const long long rest = a % b;
    return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}""",
    "dyn_imin": "FN long long dyn_imin(long long a, long long b) { return a < b ? a : b; }",
    "dyn_imax": "FN long long dyn_imax(long long a, long long b) { return a > b ? a : b; }",
    "dyn_broadcast": "FN long long dyn_broadcast(long long a, long long b) { return a == 1 ? b : a; }",
}
_WORD = re.compile(r"\bdyn_\w+")


def prelude(dialect: Dialect, text: str) -> str:
    """The includes and the functions that ``text`` needs."""
    used = set(_WORD.findall(text)) & _HELPERS.keys()
    pending = list(used)
    while pending:
        found = set(_WORD.findall(_HELPERS[pending.pop()])) & _HELPERS.keys() - used
        used |= found
        pending += found
    converts = not used.isdisjoint(("dyn_f16_to_float", "dyn_float_to_f16"))
    headers = dialect.includes + (dialect.half_includes if converts else ())
    return "".join([*_includes(headers), *[_define(dialect, name) for name in _HELPERS if name in used]])


def _includes(headers: Iterable[str]) -> list[str]:
    return [f"#include <{header}>\n" for header in headers]


def _define(dialect: Dialect, name: str) -> str:
    words = {
        "FN ": f"{dialect.function} ",
        "HALF_TO_FLOAT": dialect.half_to_float,
        "FLOAT_TO_HALF": dialect.float_to_half,
        "FLOAT_TO_BFLOAT\n": dialect.float_to_bfloat,
        "GREATER_FLOAT\n": dialect.greater_float,
        "LESSER_FLOAT\n": dialect.lesser_float,
        "COPY_ASYNC": dialect.copy_async,
        "COMMIT_COPIES": dialect.commit_copies,
        "AWAIT_COPIES": dialect.await_copies,
    }
    body = _HELPERS[name]
    for word, text in words.items():
        body = body.replace(word, text)
    return f"#ifndef {name.upper()}\n#define {name.upper()}\n{body}\n#endif\n"
