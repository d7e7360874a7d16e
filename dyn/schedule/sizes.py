"""The sizes that loop nests are cut into, and the tiles of contractions."""

from __future__ import annotations

from collections.abc import Iterable

from dyn.dtypes import DType
from dyn.frozen import record
from dyn.schedule.kernel import Tile
from dyn.schedule.order import Order
from dyn.schedule.target import Target


@record()
class LoopSchedule:
    """Sizes that a family's loop nests are cut into.

    ``elements`` is how many elements of a one-dimensional nest make a GRID iteration, ``together`` how many of one with
    shorter runs, ``columns`` how many columns of a reduction over rows, ``scattered`` how many columns of a scatter
    of rows: pieces of fewer make a copy slow.

    A reduction of more than ``part`` elements into one is cut into parts of that many, whose results are reduced in
    turn: so it runs on all cores, and its error grows with the length of a part. Columns are cut into parts of
    ``part_rows`` rows where there are at least ``many_rows``, and no more than ``few_columns`` results. With a ``part``
    of 0 nothing is cut.

    Where columns are reduced beside rows, these go in at least ``row_runs`` runs, where there are as many, of no more
    than ``run_rows`` rows each. Sums of floats are those of ``few_rows_of_run`` rows each, in the elements' dtype; with
    0, of all rows in the dtype of long sums.

    Scatters into at most ``few_columns`` elements are cut into parts of at least ``scattered_part`` updates where there
    are many more; with 0 never.

    Contractions of at least ``long`` products for each of at most ``few_results`` results are cut into parts of
    ``part_steps`` products.

    Rows that are reduced in order go side by side in lanes, each lane picking its elements from far apart; fewer than
    ``few_rows`` go one by one. Up to ``few_long_rows`` rows, or ``few_long_columns`` columns, that take several sweeps
    are cut into parts as well.

    Parts of rows that are of several axes are ``divided`` into these by numbers, or else steps of the outermost one.

    The states of parts are joined ``in_turn``, as a kernel does that goes through all parts itself, or else by lanes.

    Where some accesses lie in order along one axis and others along another, both are cut into ``tile`` bytes, and
    into ``tile_side`` elements at most; with a ``tile`` of 0 there are no tiles.

    Folds of floats in lanes have ``accumulators`` vectors of states; with 0, the states of a block's threads. A lane
    that folds floats of its own takes ``step`` at a time. Sums go by ``runs`` of steps, of these, and so on
    (``dyn.schedule.order``).
    """

    elements: int
    columns: int
    scattered: int
    together: int = 0
    part: int = 0
    part_rows: int = 0
    many_rows: int = 0
    few_columns: int = 0
    run_rows: int = 1
    row_runs: int = 1
    few_rows_of_run: int = 0
    scattered_part: int = 0
    long: int = 0
    part_steps: int = 0
    few_results: int = 0
    few_rows: int = 0
    few_long_rows: int = 0
    few_long_columns: int = 0
    divided: bool = False
    in_turn: bool = False
    tile: int = 0
    tile_side: int = 0
    accumulators: int = 0
    step: int = 1
    runs: tuple[int, ...] = (1,)

    def order(self, dtypes: Iterable[DType], target: Target) -> Order | None:
        """The order in which states of some dtypes fold in lanes; None without floats, or where threads decide it."""
        widest = max((dtype.itemsize for dtype in dtypes if dtype.is_float), default=0)
        if not (self.accumulators and widest):
            return None
        return Order(self.part, target.lanes(widest), self.accumulators, self.step, self.runs)


@record()
class Reach:
    """The operands of a contraction in memory: their dtypes, and whether neighbours along an axis lie next to each
    other, in a plain load."""

    lhs: DType
    rhs: DType
    #: The left operand along the reduced dimension.
    lhs_reduced: bool = True
    #: The right operand along the columns, and along the reduced dimension.
    rhs_columns: bool = False
    rhs_reduced: bool = False
    #: The dtype that the right operand is computed from, in loads along the columns; None where it is a load, or loads
    #: go another way.
    rhs_computed: DType | None = None
    #: The columns of a panel, where the right operand lies in panels (``dyn.ops.panels``), and the rows of a step; else
    #: None.
    rhs_panels: tuple[int, int] | None = None
    #: The columns of the panels that what the right operand is computed from lies in, where it is computed; else 0.
    computed_panels: int = 0
    #: The columns of the panels that the right operand lies in where its rows are found in another way; else 0.
    panel_columns: int = 0
    #: A number that divides the reduced dimension whatever its size.
    reduced_factor: int = 1
    #: Whether the contracted axis is one in both operands, rather than digits.
    whole: bool = True


@record()
class ContractVariant:
    """A tile, and for which row extents it is meant: ``min_rows`` to ``max_rows``, both included.

    One GRID iteration should take ``row_chunk`` rows and ``col_panel`` columns: whole tiles. One that ``adds_alike``
    adds up in the order of the last variant, which is right for any number of rows. One for at most ``max_cols``
    columns, or ``max_results`` of all batches together, stands in front of another one for the same rows. The columns
    of one that is ``in_panel`` are those of one panel; one that ``merges_chunks`` takes all that a thread has to do
    at once.
    """

    tile: Tile
    row_chunk: int
    col_panel: int
    min_rows: int
    max_rows: int | None
    note: str
    adds_alike: bool = False
    max_cols: int | None = None
    max_results: int | None = None
    in_panel: bool = False
    merges_chunks: bool = False


@record()
class Limits:
    """Limits of a target.

    ``registers`` are those of one thread: vector registers on x86, words of 32 bits on GPUs. ``scratch_bytes`` is what
    one GRID iteration may keep on the chip, None where it is as much as there is memory. ``threads`` go through a
    LANE loop together at most, in warps of ``warp``; on x86 both are 1, for lanes are vectors of one thread.
    """

    registers: int
    scratch_bytes: int | None
    threads: int = 1
    warp: int = 1
