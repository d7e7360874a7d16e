"""A few of JAX's examples with symbolic sizes; ``python -m tests.interop.symbolic_harnesses`` runs them all."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("jax")
pytest.importorskip("absl")
import jax

from tests.interop import harness_page
from tests.interop.outcomes import Outcome
from tests.interop.symbolic_harnesses import example, run, section, symbolic

#: Kinds of shape arithmetic that JAX writes.
EXAMPLES = (
    "add_any_dtypes_lhs_float32_2_rhs_float32_2_",
    "argmin_dtypes_shape_float32_15_axes_0_indexdtype_int32_enable_xla_True",
    "concatenate_dtypes_shapes_float32_2_3_float32_2_3_dimension_0",
    "cumsum_dtype_by_fun_shape_float32_8_9_axis_0_reverse_False",
    "gather_dtypes_shape_float32_10_axis_0_enable_xla_True",
    "pad_inshape_float32_2_3_pads_1_1_0_2_2_0_enable_xla_True",
    "reduce_window_min_same_padding_shape_float32_112_112_initvalue_inf_windowdimensions_3_3_windowstrides_2_2_padding_"
    "SAME_basedilation_1_1_windowdilation_1_1_enablexla_False",
    "rev_dtypes_shape_float32_4_5_dimensions_0_",
    "sort_dtypes_num_arrays_1_shape_float32_5_7_axis_0_isstable_False_num_keys_1",
)


@pytest.fixture(autouse=True)
def wide() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples(name: str) -> None:
    outcome = run(name)
    assert outcome.kind == "passed", outcome
    assert outcome.reason.startswith("3 sizes [")


def harness(fn: Any, *arrays: Any) -> Any:
    return SimpleNamespace(
        group_name="own", dyn_fun=fn, dyn_args_maker=lambda _: list(arrays), arg_descriptors=[None] * len(arrays)
    )


def test_the_first_choice_that_jax_takes() -> None:
    x, y = np.ones((3, 4), np.float32), np.ones((4, 1), np.float32)
    rungs = {
        "distinct": lambda x, y: (x * 2, y),
        "shared": lambda x, y: x @ y,
        "distinct, bounded": lambda x, y: jax.lax.slice(x, (0, 1), (2, 3)),
        "shared, bounded": lambda x, y: jax.lax.slice(x @ y, (0, 0), (3, 1)),
        "single": lambda x, y: jax.numpy.fft.fft(x) @ y,
    }
    for rung, fn in rungs.items():
        program = symbolic(jax, jax.jit(fn), [x, y])
        assert not isinstance(program, str), program
        assert program.rung == rung
    assert str(symbolic(jax, jax.jit(jax.numpy.fft.fft), [np.ones(3)])).startswith("NotImplementedError")
    assert symbolic(jax, jax.jit(lambda x: x), [np.ones(0)]) == "it has no sizes"


def test_outcomes() -> None:
    x = np.ones((3, 4), np.float32)
    assert example(harness(lambda x: x + 1, x)) == ("passed", "3 sizes [distinct]")
    assert example(harness(lambda x: x + 1, np.float32(2))) == ("not exported", "it has no sizes")
    kind, reason = example(harness(lambda x: jax.pure_callback(lambda y: y, x, x), x))
    assert kind in ("refused", "not exported"), reason


def test_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    outcomes = [
        Outcome("add", "add_1", "passed", "3 sizes [distinct]"),
        Outcome("add", "add_2", "passed", "1 sizes [shared]"),
        Outcome("fft", "fft_1", "refused", "a|b [shared]"),
        Outcome("fft", "fft_2", "not exported", "it has no sizes"),
    ]
    page = tmp_path / "page.md"
    page.write_text("before <!-- symbolic: begin --> old <!-- symbolic: end --> after")
    monkeypatch.setattr(harness_page, "PAGE", page)
    harness_page.write_page("symbolic", section(outcomes))
    assert (
        page.read_text()
        == f"""before <!-- symbolic: begin -->

4 examples of JAX {jax.__version__} were run with symbolic sizes: JAX exports 3 of them so, and \
2 of these pass (66.67%). 1 were compared at greater sizes too, with the same compile.
Symbols: distinct 1, shared 1.

| primitive | passed | gap | refused | failed | crashed | hung | not exported |
|---|---:|---:|---:|---:|---:|---:|---:|
| add | 2 |  |  |  |  |  |  |
| fft |  |  | 1 |  |  |  | 1 |

| | primitive | what | why | for example |
|---:|---|---|---|---|
| 1 | fft | not exported | it has no sizes | `fft_2` |
| 1 | fft | refused | a\\|b [shared] | `fft_1` |

<!-- symbolic: end --> after"""
    )
