"""JAX's own examples of its primitives, run on dyn: a command, for there are thousands of them.

``python -m tests.interop.harnesses --stride 10`` exports every tenth one, reads the module, compiles and runs it, and
compares with JAX. It prints a table by primitive, and the reasons of what did not pass, the most frequent ones first.
``--group NAME`` takes those of one primitive alone, ``--only-read`` traces them and goes no further.
"""

from __future__ import annotations

import argparse
import collections
import re
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from dyn.errors import DynError, NotYetError, UnsupportedOpError


@dataclass(frozen=True)
class Outcome:
    """What became of one example: ``passed``, ``refused`` (dyn says that it has not that), ``failed``."""

    group: str
    name: str
    kind: str
    reason: str = ""


def harnesses(group: str | None, stride: int) -> Iterator[Any]:
    """JAX's examples that it runs on a CPU."""
    from jax._src.internal_test_util import test_harnesses

    chosen = [h for h in test_harnesses.all_harnesses if group is None or h.group_name == group]
    for harness in chosen[::stride]:
        if harness.filter("cpu") and not any(
            limitation.skip_run and limitation.filter(device="cpu", dtype=harness.dtype)
            for limitation in harness.jax_unimplemented
        ):
            yield harness


def run(harness: Any, *, only_read: bool) -> Outcome:
    """Export it, read it, run it, compare."""
    import jax
    from jax import export

    from dyn.interop.stablehlo import load

    group, name = harness.group_name, harness.fullname
    args = harness.dyn_args_maker(np.random.RandomState(0))  # what its makers call
    function = jax.jit(harness.dyn_fun)
    try:
        exported = export.export(function)(*args)
    except Exception as error:  # JAX's own limits are no concern of ours
        return Outcome(group, name, "not exported", type(error).__name__)
    try:
        loaded = load(exported.mlir_module_serialized)
        leaves = [np.asarray(a) for i, a in enumerate(jax.tree.leaves(args)) if i in exported.module_kept_var_idx]
        if only_read:
            loaded.trace(*leaves)
            return Outcome(group, name, "passed")
        made = loaded(*leaves)
    except (UnsupportedOpError, NotYetError) as error:
        return Outcome(group, name, "refused", short(error))
    except DynError as error:
        return Outcome(group, name, "failed", short(error))
    except Exception as error:
        return Outcome(group, name, "failed", f"{type(error).__name__}: {str(error)[:100]}")
    actual = made if isinstance(made, tuple) else (made,)
    wanted = jax.tree.leaves(function(*args))
    return Outcome(group, name, *compared(actual, wanted))


def compared(actual: Any, wanted: Any) -> tuple[str, str]:
    """Whether results are JAX's, at tolerances that its tests have for these dtypes."""
    for x, y in zip(actual, wanted, strict=True):
        own, other = np.asarray(x), np.asarray(y)
        if own.dtype != other.dtype or own.shape != other.shape:
            return "failed", f"{own.dtype}{own.shape} is not {other.dtype}{other.shape}"
        tolerance = {2: 1e-2, 4: 1e-4, 8: 1e-6}.get(own.dtype.itemsize, 1e-6)
        wide = np.complex128 if own.dtype.kind == "c" else np.float64
        if own.dtype.kind in "biu":
            if not np.array_equal(own, other):
                return "failed", "other integers"
        elif not np.allclose(own.astype(wide), other.astype(wide), tolerance, tolerance, equal_nan=True):
            return "failed", "other numbers"
    return "passed", ""


def short(error: DynError) -> str:
    """A reason without what differs from one example to the next."""
    return re.sub(r"\([^()]*\)|\[[^\]]*\]|\d+", "…", error.problem)[:110]


def table(outcomes: list[Outcome]) -> str:
    """Counts by primitive, then the reasons."""
    groups = sorted({o.group for o in outcomes})
    kinds = ["passed", "refused", "failed", "not exported"]
    lines = [f"{'primitive':32s}" + "".join(f"{k:>14s}" for k in kinds)]
    for group in [*groups, "all"]:
        counts = collections.Counter(o.kind for o in outcomes if group in (o.group, "all"))
        lines.append(f"{group:32s}" + "".join(f"{counts[k]:14d}" for k in kinds))
    for (kind, reason), count in collections.Counter((o.kind, o.reason) for o in outcomes if o.reason).most_common(40):
        first = next(o.name for o in outcomes if (o.kind, o.reason) == (kind, reason))
        lines.append(f"{count:5d} {kind}: {reason}   ({first})")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--group")
    parser.add_argument("--stride", type=int, default=1)
    parser.add_argument("--only-read", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    import jax

    with jax.enable_x64(True):
        outcomes = [run(h, only_read=options.only_read) for h in harnesses(options.group, options.stride)]
    print(table(outcomes))
    return 0 if all(o.kind != "failed" for o in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
