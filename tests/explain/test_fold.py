"""Which runs of kernels are a model's layers."""

from __future__ import annotations

from dyn.explain.fold import KernelStep, Repetition, StepOutput, best_order, find_folds


def chain(labels: str, start: object = "x") -> list[KernelStep]:
    """Steps that each read the one before."""
    return [KernelStep(label, (StepOutput(i - 1, 0) if i else start, "w")) for i, label in enumerate(labels)]


def folds(steps: list[KernelStep], shown: frozenset[int] | None = None) -> list[Repetition]:
    return find_folds(steps, frozenset({len(steps) - 1}) if shown is None else shown)


def test_layers_are_found_between_what_comes_before_and_after() -> None:
    assert folds(chain("eabcabcabch")) == [Repetition(1, 3, 3)]
    assert folds(chain("aaaa")) == [Repetition(0, 1, 4)]


def test_an_encoder_and_a_decoder_are_two_runs() -> None:
    assert folds(chain("ababab-cdecdecde")) == [Repetition(0, 2, 3), Repetition(7, 3, 3)]


def test_nothing_repeats() -> None:
    assert folds(chain("abcd")) == []
    assert folds([]) == []
    assert folds(chain("a")) == []


def test_the_shortest_period_is_the_layer() -> None:
    assert folds(chain("ab" * 8)) == [Repetition(0, 2, 8)]


def test_parallel_kernels_are_no_layers() -> None:
    """Query, key and value are three equal kernels beside one another."""
    steps = [
        KernelStep("a", ("x",)),
        KernelStep("a", ("x",)),
        KernelStep("a", ("x",)),
        KernelStep("b", (StepOutput(0, 0), StepOutput(1, 0), StepOutput(2, 0))),
    ]
    assert folds(steps) == []


def test_an_inner_result_is_not_folded_away() -> None:
    assert folds(chain("abababab"), frozenset({7, 3})) == [Repetition(0, 2, 2), Repetition(4, 2, 2)]


def test_a_layer_that_is_read_from_far_away_is_not_folded_away() -> None:
    steps = [*chain("abababab"), KernelStep("c", (StepOutput(7, 0), StepOutput(1, 0)))]
    assert folds(steps) == [Repetition(2, 2, 3)]


def test_other_wiring_is_another_layer() -> None:
    steps = chain("abababab")
    steps[4] = KernelStep("a", (StepOutput(2, 0), "w"))  # reads past its neighbour
    assert folds(steps) == [Repetition(0, 4, 2)]


def test_residuals_and_shared_inputs_are_part_of_the_wiring() -> None:
    steps: list[KernelStep] = []
    last: object = "x"
    for _ in range(5):
        first = len(steps)
        steps += [KernelStep("a", (last, "mask")), KernelStep("b", (StepOutput(first, 0), last))]
        last = StepOutput(first + 1, 0)
    assert folds(steps) == [Repetition(0, 2, 5)]


def test_a_hundred_layers_take_no_time() -> None:
    assert folds(chain("e" + "abcdefghijk" * 100 + "z")) == [Repetition(1, 11, 100)]


def test_what_all_layers_read_does_not_hide_the_first() -> None:
    steps = [KernelStep("a", ("x",)), KernelStep("m", ("mask",)), KernelStep("b", (StepOutput(0, 0), StepOutput(1, 0)))]
    for i in range(3, 9, 2):
        steps += [KernelStep("a", (StepOutput(i - 1, 0),)), KernelStep("b", (StepOutput(i, 0), StepOutput(1, 0)))]
    late = frozenset({len(steps) - 1})
    assert find_folds(steps, late) == [Repetition(2, 2, 3)]
    # Where the mask comes first, going on with what is possible computes all of it before the first layer.
    assert best_order(steps, late) == (list(range(9)), [Repetition(2, 2, 3)])
    first = [
        KernelStep("n", ("mask",)),
        KernelStep("a", ("x",)),
        KernelStep("m", (StepOutput(0, 0),)),
        KernelStep("b", (StepOutput(1, 0), StepOutput(2, 0))),
    ]
    for i in range(4, 10, 2):
        first += [KernelStep("a", (StepOutput(i - 1, 0),)), KernelStep("b", (StepOutput(i, 0), StepOutput(2, 0)))]
    assert best_order(first, frozenset({9})) == ([0, 2, 1, 3, 4, 5, 6, 7, 8, 9], [Repetition(2, 2, 4)])


def test_no_order_is_needed_for_nothing() -> None:
    assert best_order([], frozenset()) == ([], [])
