"""RUNNING groups as kernels: along one axis, each element combined with all that come before it.

The sums follow one another, so nothing is gained by vectors along the axis; what lies side by side goes side by side:

* where there are axes behind the running one, lanes go along these, and every step is a vector of each row;
* along the last axis each run is a chain of its own, one addition's latency an element, and reads and writes memory in
  its order.

Runs are dealt to GRID iterations, and each element is the same for any number of threads: combined from the front (from
the back, where ``reverse``), one by one. 16-bit floats are carried in float32, and rounded as they are stored.
"""

from __future__ import annotations

from dyn.ir.opdef import Running
from dyn.ops.reduce import identity
from dyn.schedule.axes import axis, collapse, index_of, linearize, nest, split
from dyn.schedule.elements import Elements
from dyn.schedule.expressions import Rewriter, stmt_dims
from dyn.schedule.families import loop_schedule
from dyn.schedule.kernel import Buffer, Carry, Loop, Ref, Role, Store
from dyn.schedule.launch import Launch, bind_kernel
from dyn.schedule.target import Target
from dyn.shapes import substitute
from dyn.stitch.groups import Group, Plan


def lower_running(plan: Plan, group: Group, target: Target) -> Launch:
    """The launch of a running reduction."""
    (op,) = group.ops
    assert isinstance(op.opdef.loops, Running)
    elements, along = Elements(plan, group), op.attrs["dimension"]
    k = elements.k
    dtype = op.result.dtype
    wide = dtype.wide
    out = Buffer("out", dtype)

    axes = [None if d == 1 and a != along else axis(f"i{a}", d) for a, d in enumerate(group.space)]
    step = axes[along]
    assert step is not None
    index = list(index_of(axes))
    if op.attrs["reverse"]:
        index[along] = step.extent - 1 - index[along]
    element = k.cast(elements.at(op.operands[0], tuple(index)), wide)
    state = Ref("state", wide)
    value = k.apply(op.opdef.loops.combine(op.attrs), [state, element], wide)
    store = Store(out, linearize(tuple(index), group.space), k.cast(value, dtype))
    # -0.0 changes no zero that is added to it.
    adds = op.attrs["combine"] == "add" and wide.is_float
    start = -0.0 if adds else identity(op.attrs["combine"], wide)
    carry = Carry(Ref("last", wide), state, k.const(wide, start), value)

    outer, change = collapse([a for a in axes[:along] if a is not None], stmt_dims((store,)))
    inner, merged = collapse([a for a in axes[along + 1 :] if a is not None], stmt_dims((store,)))
    roles, change = [Role.GRID] * len(outer), change | merged
    if inner:
        chunk, lanes, cut = split(inner[-1], loop_schedule(target).columns)
        outer, change = [*outer, *inner[:-1], chunk], {s: substitute(d, cut) for s, d in change.items()} | cut
        outer.append(lanes)
        roles = [Role.GRID] * (len(outer) - 1) + [Role.LANE]
    run = Loop(Role.SERIAL, step.var, step.extent, (store,), (), (carry,))
    body = Rewriter(lambda dim: substitute(dim, change)).block((run,))
    buffers = (*elements.inputs.values(), out)
    kernel = bind_kernel(nest(outer, roles, body), buffers, (), name=group.name, note=f"running {group.name}")
    return Launch(group, (*elements.inputs, *group.outputs), (kernel,))
