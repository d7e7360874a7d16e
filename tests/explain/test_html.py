"""``explain()`` in Jupyter: self-contained, escaped, small, and telling what the text tells."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp
from dyn.explain.graph import BoxGraph, make_graph
from examples.bert import BertConfig, encode, init_params

VOID = {"br"}


class Checker(HTMLParser):
    """Every element is closed, nothing runs, and nothing is loaded."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []
        self.texts: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag not in ("script", "link", "img", "iframe", "object", "use", "foreignobject")
        for name, value in attrs:
            assert name in ("class", "style", "open", "role", "aria-label", "width", "height", "viewbox", "d", "x", "y",
                            "rx", "points", "text-anchor"), name  # fmt: skip
            assert "url(" not in (value or "")
        self.seen.append(tag)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        assert "//" not in data or "style" not in self.open  # no address in the style sheet
        self.texts.append(data)


def html(function) -> str:
    text = function.explain()._repr_html_()
    Checker(text)
    return text


def bert(layers: int):
    config = BertConfig(layers=layers, width=24, heads=2, intermediate=40, vocabulary=50, positions=64)
    params = init_params(config)
    model = dyn.jit(shapes="b s, b s")(lambda ids, mask: encode(params, ids, mask, config=config))
    model(np.ones((2, 5), "i4"), np.ones((2, 5), "i4"))
    return model


def graph_of(function) -> BoxGraph:
    return make_graph(function.explain().versions[0].optimized)


def graph_text(graph: BoxGraph) -> str:
    """A graph as golden files read it."""
    lines: list[str] = []
    for number, box in enumerate(graph.boxes):
        layer = next((i for i, layers in enumerate(graph.layers) if number in layers.boxes), None)
        inside = "" if layer is None else f"  (layer {layer})"
        lines.append(f"{number}: {box.kind} {box.title} {box.subtitle}".rstrip() + inside)
        lines += [f"     {row.role:6} {row.left}: {row.right}" for row in box.rows]
        lines += [f"     -> {text}" for text in box.outputs]
    lines += [
        f"{arrow.tail}.{arrow.output} -> {arrow.head}" + (f" through {arrow.views}" if arrow.views else "")
        for arrow in graph.arrows
    ]
    for number, layers in enumerate(graph.layers):
        lines.append(f"layer {number}, {layers.count} times")
        lines += [f"  to the next: {arrow.tail}.{arrow.output} -> {arrow.head}" for arrow in layers.back]
    return "\n".join(lines)


@dyn.jit
def softmax(x):
    # Not as others write it: programs that are the same are compiled once, and the page tells what its own took.
    e = dnp.exp(-(dnp.max(x, axis=-1, keepdims=True) - x))
    return e / dnp.sum(e, axis=-1, keepdims=True)


# ---- what is told ----------------------------------------------------------------------------------------------------


def test_all_that_the_text_tells_is_in_the_page() -> None:
    softmax(np.ones((2, 3), "f4"))
    text = html(softmax)
    for part in (
        "softmax", "1 compile", "x.shape[0]", "x_1 &gt;= 1", "needed", "the maximum of nothing has no value",
        "reduce_exponential_divide", "always", "24*x_0*x_1 + 16*x_0", "parts joined", "fold max",
        "func @softmax", "host @softmax", "refine_shapes", "exponential", "prefers-color-scheme:dark",
    ):  # fmt: skip
        assert part in text, part


def test_a_program_without_intermediate_arrays() -> None:
    f = dyn.jit(lambda x: x * 5 - 2)
    f(np.ones(3, "f4"))
    assert "No intermediate arrays" in html(f)


def test_before_the_first_call() -> None:
    f = dyn.jit(lambda x: x)
    assert "Not called yet: nothing is compiled." in html(f)


def test_every_program_says_why_it_is_there() -> None:
    f = dyn.jit(lambda x: x + 1)
    f(np.ones(2, "f4"))
    f(np.ones(2, "f8"))
    text = html(f)
    assert "program 1 of 2</summary>" in text
    assert "program 2 of 2<small>because x is float64, and was float32 in program 1, the nearest</small>" in text


def test_guards_declared_and_proved_facts_are_told_apart() -> None:
    @dyn.jit(shapes="n, m", dims=[dyn.Dim("n", max=512)], constraints="m == 2*n")
    def f(x, y):
        return x * 2 if x.shape[0] > 2 else x, y

    f(np.ones(3, "f4"), np.ones(6, "f4"))
    text = html(f)
    rows = re.findall(r"<tr><td><code>([^<]*)</code></td><td><span[^>]*>(\w+)", text)
    assert ("0 &lt;= n &lt;= 512", "declared") in rows
    assert ("m == 2*n", "declared") in rows
    assert ("n &gt;= 3", "proved") in rows
    line = f.__wrapped__.__code__.co_firstlineno + 2
    assert f"""  proved from them
    n >= 3: the branch on n > 2 (test_html.py:{line})
""" in str(f.explain())


# ---- the picture -----------------------------------------------------------------------------------------------------


def test_the_graph_of_residual_layers(golden) -> None:
    weights = [(np.ones((4, 8), "f4"), np.ones((8, 4), "f4")) for _ in range(5)]

    @dyn.jit(shapes="b s 4, b s")
    def f(x, mask):
        bias = dnp.where(mask, 0.0, -1.0)[..., None]
        for up, down in weights:
            x = dyn.nn.layer_norm(x + dnp.tanh(x @ up) @ down + bias)
        return dnp.sum(x, axis=1)

    f(np.ones((2, 5, 4), "f4"), np.ones((2, 5), bool))
    golden("residual-layers.txt", graph_text(graph_of(f)))


def test_twelve_layers_are_folded_into_one() -> None:
    model = bert(12)
    graph = graph_of(model)
    (layers,) = graph.layers
    assert layers.count == 12
    assert len(graph.boxes) < 20
    text = html(model)
    assert "layer × 12" in text
    assert len(text) < 160_000


def test_layers_that_differ_are_not_folded() -> None:
    weights = [np.ones((4, 4), "f4"), np.ones((4, 8), "f4"), np.ones((8, 4), "f4")]

    @dyn.jit
    def f(x):
        for w in weights:
            x = dnp.tanh(x @ w)
        return x

    f(np.ones((2, 4), "f4"))
    assert graph_of(f).layers == []


def test_inner_results_stop_a_fold() -> None:
    weight = np.ones((4, 4), "f4")

    @dyn.jit
    def f(x):
        states = []
        for _ in range(6):
            x = dnp.tanh(x @ weight)
            states.append(x)
        return states

    f(np.ones((2, 4), "f4"))
    graph = graph_of(f)
    assert graph.layers == []
    assert sum(box.kind == "result" for box in graph.boxes) == 6
    html(f)


def test_an_arrow_for_each_output_that_is_read() -> None:
    @dyn.jit
    def f(x):
        mean = dnp.mean(x, axis=1, keepdims=True)
        return x - mean, mean

    f(np.ones((2, 3), "f4"))
    graph = graph_of(f)
    kernel = next(i for i, box in enumerate(graph.boxes) if box.kind == "stitch")
    assert len(graph.boxes[kernel].outputs) == 2
    assert {arrow.output for arrow in graph.arrows if arrow.tail == kernel} == {0, 1}


def test_a_library_call_is_a_box_too() -> None:
    f = dyn.jit(lambda x: dnp.sort(x * 2, axis=-1) + 1)
    f(np.ones((2, 3), "f4"))
    assert "library" in [box.kind for box in graph_of(f).boxes]
    html(f)
    assert "variant a library call: always" in str(f.explain())


def test_many_weights_are_rows_and_not_boxes() -> None:
    @dyn.jit
    def f(tree):
        return sum(dnp.sum(leaf * 2) for leaf in tree)

    f([np.ones(3, "f4")] * 200)
    graph = graph_of(f)
    assert not any(box.kind == "parameter" for box in graph.boxes)
    assert any(row.left == "reads tree[199]" for box in graph.boxes for row in box.rows)
    html(f)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x,
        lambda x: (x, x, x.reshape(-1)),
        lambda x: x.T,
        lambda x: (),
        lambda x: dnp.zeros((3,)),
        dnp.sum,
    ],
    ids=["identity", "copies", "transpose", "nothing", "constant", "sum"],
)
def test_odd_programs_have_pictures(function) -> None:
    f = dyn.jit(lambda x: function(x))  # noqa: PLW0108  # dnp.sum has more arguments
    f(np.ones((2, 3), "f4"))
    assert "<svg" in html(f)


def test_everything_is_escaped() -> None:
    def evil(tree):
        return {"<i>": tree["<script>alert('1')</script>"] + 1}

    evil.__name__ = "<b onload=x>&"
    f = dyn.jit(evil)
    f({"<script>alert('1')</script>": np.ones(3, "f4")})
    text = html(f)
    assert "&lt;script&gt;" in text
    assert "&lt;b onload=x&gt;&amp;" in text
    for raw in ("<script", "<i>", "<b onload"):
        assert raw not in text


def test_long_code_is_cut_and_says_where_the_whole_is() -> None:
    f = dyn.jit(lambda x: sum(dnp.sin(x[i]) * i for i in range(300)))
    f(np.ones((300, 2), "f4"))
    assert "more characters; .trace(...).lower().as_text(&quot;dhlo&quot;) gives all" in html(f)


def test_static_shapes_are_told_whole_and_those_of_many_arguments_together() -> None:
    def lines(count: int) -> list[str]:
        f = dyn.jit(lambda x, ws: sum((x @ w for w in ws), x), shapes=("n 3", ["3 3"] * count))
        f(np.ones((2, 3), np.float32), [np.ones((3, 3), np.float32)] * count)
        return [line.strip() for line in str(f.explain()).splitlines() if line.endswith(": declared")]

    assert lines(2) == [
        "x.shape[1] == 3: declared",
        "ws[0].shape == (3, 3): declared",
        "ws[1].shape == (3, 3): declared",
    ]
    assert lines(20) == [
        "x.shape[1] == 3: declared", "ws[0].shape == (3, 3), and so on for 19 other arguments: declared",
    ]  # fmt: skip
