"""Floats of 8 bits in generated text: a struct of their bits, and the conversions from and to float, by integers alone.

No header of a vendor's is needed, and none has every format. The algorithms are those of ``dyn.lower.x86.float8``.
"""

from __future__ import annotations

from dyn import dtypes
from dyn.dtypes import DType, FloatFormat, Special


def _decode(name: str, form: FloatFormat) -> str:
    most = form.greatest
    nan = {
        Special.IEEE: f"if (size > {most}u) bits = size == {most + 1}u ? 0x7f800000u : 0x7fc00000u;",
        Special.NAN: "if (size == 0x7fu) bits = 0x7fc00000u;",
        Special.NAN_AT_MINUS_ZERO: "if (code == 0x80u) bits = 0x7fc00000u;",
    }[form.special]
    return f"""\
FN float {name}_to_float({name} h) {{
    const unsigned code = h.bits, size = code & 0x7fu;
    const unsigned tiny = (unsigned)__float_as_int((float)(int)size * {2.0**form.least!r}f);
    unsigned bits = size < {1 << form.fraction}u ? tiny : (size << {23 - form.fraction}) + {(127 - form.bias) << 23}u;
    {nan}
    return __int_as_float((int)(bits | (code & 0x80u) << 24));
}}"""


def _encode(name: str, form: FloatFormat) -> str:
    most, lost = form.greatest, 23 - form.fraction
    past = {Special.IEEE: most + 1, Special.NAN: 0x7F, Special.NAN_AT_MINUS_ZERO: 0x80}[form.special]
    lines = [
        "const unsigned pattern = (unsigned)__float_as_int(x), size = pattern & 0x7fffffffu;",
        f"const unsigned tiny = (unsigned)__float_as_int(__int_as_float((int)size) + {2.0 ** (form.least + 23)!r}f);",
        f"const unsigned even = (1u << {lost - 1}) - 1u + (size >> {lost} & 1u);",
        f"const unsigned normal = (size - {(127 - form.bias) << 23}u + even) >> {lost};",
        f"unsigned code = size < {(128 - form.bias) << 23}u ? tiny - {(form.least + 150) << 23}u : normal;",
        f"if (code > {most}u) code = {past}u;",
    ]
    if form.special is Special.IEEE:
        lines.append(f"if (size > 0x7f800000u) code = {past | 1 << (form.fraction - 1)}u;")
    zero = "code == 0u ? 0u : " if form.special is Special.NAN_AT_MINUS_ZERO else ""
    lines.append(f"const unsigned sign = {zero}pattern >> 24 & 0x80u;")
    lines.append(f"return {name}{{(unsigned char)(code | sign)}};")
    body = "".join([f"    {line}\n" for line in lines])
    kind = name.removeprefix("dyn_")
    return f"FN {name} dyn_float_to_{kind}(float x) {{  // to nearest even\n{body}}}"


#: Powers of two, from the least to the greatest of float, as their exponents; halves are rounded up.
_DECODE_POWER = """\
FN float NAME_to_float(NAME h) {
    const unsigned code = h.bits;
    return __int_as_float((int)(code == 0u ? 0x00400000u : code == 0xffu ? 0x7fc00000u : code << 23));
}"""
_ENCODE_POWER = """\
FN NAME dyn_float_to_KIND(float x) {
    const unsigned bits = (unsigned)__float_as_int(x);
    if (bits - 1u >= 0x7f7fffffu) return NAME{0xff};
    return NAME{(unsigned char)((bits + (bits < 0x00800000u ? 0x00200000u : 0x00400000u)) >> 23)};
}"""


def _helpers(dtype: DType) -> dict[str, str]:
    name, form = f"dyn_{dtype.short}", dtype.floating
    if form.special is Special.POWERS:
        decode, encode = (t.replace("NAME", name).replace("KIND", dtype.short) for t in (_DECODE_POWER, _ENCODE_POWER))
    else:
        decode, encode = _decode(name, form), _encode(name, form)
    return {
        name: f"struct {name} {{ unsigned char bits; }};",
        f"{name}_to_float": decode,
        f"dyn_float_to_{dtype.short}": encode,
    }


#: Name to definition, as in ``prelude.py``.
HELPERS = {name: text for dtype in dtypes.FLOAT8 for name, text in _helpers(dtype).items()}
