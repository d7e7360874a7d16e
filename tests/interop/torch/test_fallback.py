"""What dyn leaves to eager PyTorch: operations in the midst of a program, and whole calls, each with a warning."""

from __future__ import annotations

import copy
import threading
import warnings
from collections.abc import Callable
from typing import Any

import pytest

from dyn import ShapeDtypeStruct
from dyn.errors import ArgumentError, NotYetError, ShapeError, UnsupportedOpError

torch: Any = pytest.importorskip("torch")

import dyn.interop.torch as dyn_torch  # noqa: E402
from tests.interop.torch.comparing import same  # noqa: E402

FallbackWarning = dyn_torch.FallbackWarning
custom_op = torch.library.custom_op


@custom_op("dyn_tests::scaled", mutates_args=(), schema="(Tensor x, float factor) -> Tensor")
def scaled(x: Any, factor: float) -> Any:
    return (x * factor).to(x.dtype)


@scaled.register_fake
def _(x: Any, factor: float) -> Any:
    return torch.empty_like(x)


@custom_op("dyn_tests::increment", mutates_args=("x",), schema="(Tensor(a!) x, int by) -> ()")
def increment(x: Any, by: int) -> None:
    x.add_(by)


@custom_op("dyn_tests::halves", mutates_args=(), schema="(Tensor[] xs, Tensor? y) -> (Tensor[], Tensor)")
def halves(xs: list[Any], y: Any) -> Any:
    return [x / 2 for x in xs], xs[0].sum(0) if y is None else y + 0


@halves.register_fake
def _(xs: list[Any], y: Any) -> Any:
    return [torch.empty_like(x) for x in xs], xs[0].new_empty(xs[0].shape[1:]) if y is None else torch.empty_like(y)


@custom_op("dyn_tests::product", mutates_args=(), schema="(Tensor x, Tensor y) -> Tensor")
def product(x: Any, y: Any) -> Any:
    return x @ y


@product.register_fake
def _(x: Any, y: Any) -> Any:
    return x @ y


@custom_op("dyn_tests::layout", mutates_args=(), schema="(Tensor x) -> Tensor", tags=(torch.Tag.needs_exact_strides,))
def layout(x: Any) -> Any:
    return torch.tensor([*x.stride(), *x.shape])


@layout.register_fake
def _(x: Any) -> Any:
    return torch.empty(2 * x.ndim, dtype=torch.int64)


@custom_op("dyn_tests::count", mutates_args=(), schema="(Tensor x) -> Tensor")
def count(x: Any) -> Any:
    return x[x > 0].clone()


@count.register_fake
def _(x: Any) -> Any:
    return x.new_empty(torch.library.get_ctx().new_dynamic_size())


@custom_op("dyn_tests::liar", mutates_args=(), schema="(Tensor x) -> Tensor")
def liar(x: Any) -> Any:
    return x[1:].clone()


@liar.register_fake
def _(x: Any) -> Any:
    return torch.empty_like(x)


@custom_op("dyn_tests::unknown", mutates_args=(), schema="(Tensor x) -> Tensor")
def unknown(x: Any) -> Any:
    return x + 1


@custom_op(
    "dyn_tests::noise", mutates_args=(), schema="(Tensor x) -> Tensor", tags=(torch.Tag.nondeterministic_seeded,)
)
def noise(x: Any) -> Any:
    return torch.rand(x.shape)


@noise.register_fake
def _(x: Any) -> Any:
    return torch.empty_like(x)


def rows(*sizes: int, dtype: Any = torch.float32) -> Any:
    return (torch.arange(torch.Size(sizes).numel(), dtype=torch.float32).reshape(sizes) - 2).to(dtype)


def pieces(compiled: Any, *arguments: Any) -> list[str]:
    """The text of the warning of a first call, which has pieces."""
    with pytest.warns(FallbackWarning) as caught:
        compiled(*arguments)
    assert len(caught) == 1
    return str(caught[0].message).splitlines()


# Operations in a program ------------------------------------------------------------------------------------------


def test_an_operation_without_a_converter_is_a_piece_of_the_program() -> None:
    def f(x: Any) -> Any:
        y = x.exp() + 1
        return torch.special.airy_ai(y) * 2, torch.special.airy_ai(y - 1)

    compiled = dyn_torch.jit(f)
    text = pieces(compiled, rows(2, 3))
    assert text[0] == "f: 2 operations in eager PyTorch:"
    assert text[1:3] == [
        "  aten.special_airy_ai.default (2 times): has no converter.",
        f"    at test_fallback.py:{f.__code__.co_firstlineno + 2}  "
        "return torch.special.airy_ai(y) * 2, torch.special.airy_ai(y - 1)",
    ]
    assert "strict=True" in text[-1]
    for sizes in ((0, 3), (1, 1), (5, 2)):  # and no word more
        same(f(rows(*sizes)), compiled(rows(*sizes)))
    assert compiled.cache_info()[:2] == (1, 3)
    assert "2 operations in eager PyTorch" in str(compiled.explain())


def test_strict_raises_for_it() -> None:
    with pytest.raises(NotYetError, match=r"aten\.special_airy_ai\.default has no converter"):
        dyn_torch.jit(strict=True)(torch.special.airy_ai)(rows(3))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64, torch.int32, torch.complex64])
def test_custom_operations_in_all_dtypes(dtype: Any) -> None:
    def f(x: Any) -> Any:
        return scaled(x + x, 3.0) - x

    compiled = dyn_torch.jit(f)
    with pytest.warns(FallbackWarning, match=r"dyn_tests\.scaled\.default"):
        same(f(rows(2, 3, dtype=dtype)), compiled(rows(2, 3, dtype=dtype)))
    for sizes in ((1, 4), (0, 2)):
        same(f(rows(*sizes, dtype=dtype)), compiled(rows(*sizes, dtype=dtype)))
    assert compiled.cache_info().compiles == 1


def test_lists_options_and_sizes_as_arguments() -> None:
    def f(x: Any, y: Any) -> Any:
        (a, b), c = halves([x, y], None)
        z = x.clone()
        increment(z, x.shape[0] * 2)
        return a, b, c, halves([a], c)[1], z

    compiled = dyn_torch.jit(f)
    with pytest.warns(FallbackWarning, match="3 operations"):
        same(f(rows(2, 3), rows(4)), compiled(rows(2, 3), rows(4)))
    for n, m in ((1, 1), (5, 0), (3, 3)):
        same(f(rows(n, m), rows(n + 1)), compiled(rows(n, m), rows(n + 1)))


def test_closed_over_tensors_and_results_that_nobody_reads() -> None:
    weight = torch.nn.Parameter(rows(3), requires_grad=False)

    def f(x: Any) -> Any:
        scaled(x, 7.0)
        return scaled(weight, 2.0) + x

    compiled = dyn_torch.jit(f)
    with pytest.warns(FallbackWarning):
        compiled(rows(2, 3))
    weight.data.mul_(3)
    same(f(rows(4, 3)), compiled(rows(4, 3)))


def test_what_an_operation_writes_is_written() -> None:
    def f(x: Any, y: Any) -> Any:
        increment(x, 2)
        increment(y[1:], 5)  # a view: its argument is written
        return x * y.sum(), y.t()

    compiled = dyn_torch.jit(f)
    with pytest.warns(FallbackWarning, match="2 operations"):
        compiled(rows(3), rows(2, 2))
    for n in (1, 0, 4):
        given, ours = (rows(n), rows(n + 1, 2)), (rows(n), rows(n + 1, 2))
        same(f(*given), compiled(*ours))
        same(given, ours)
    assert compiled.cache_info().compiles == 1


def test_an_operation_that_writes_to_memory_it_also_reads() -> None:
    @custom_op("dyn_tests::add_to", mutates_args=("x",), schema="(Tensor(a!) x, Tensor y) -> ()")
    def add_to(x: Any, y: Any) -> None:
        x.add_(y.sum())

    def f(x: Any) -> Any:
        add_to(x, x[:1])
        return x

    compiled = dyn_torch.jit(f)
    with pytest.warns(FallbackWarning, match="shares memory with another of its arguments"):
        same(f(rows(3)), compiled(rows(3)))


def test_a_view_that_only_pytorch_knows() -> None:
    def f(x: Any) -> Any:
        y = x + 0
        view = torch._test_autograd_multiple_dispatch_view(y)
        y.mul_(2)
        return view, y.unfold(0, 2, 1)

    compiled = dyn_torch.jit(f)
    with pytest.warns(FallbackWarning, match=r"aten\._test_autograd_multiple_dispatch_view"):
        same(f(rows(4)), compiled(rows(4)))
    same(f(rows(7)), compiled(rows(7)))

    def written(x: Any) -> Any:
        y = x + 0
        torch._test_autograd_multiple_dispatch_view(y).add_(1)
        return y

    with pytest.warns(FallbackWarning, match="a write to what"):
        same(written(rows(4)), dyn_torch.jit(written)(rows(4)))


def test_strides_are_those_of_pytorch() -> None:
    def f(x: Any) -> Any:
        image = x[None].expand(2, -1, -1, -1).contiguous(memory_format=torch.channels_last)
        return (
            layout(image), layout(x[:, ::2]), layout(x[None].expand(3, -1, -1, -1)), layout(x.transpose(0, 2)),
            scaled(image, 2.0),
        )  # fmt: skip

    compiled = dyn_torch.jit(f)
    with pytest.warns(FallbackWarning):
        same(f(rows(3, 4, 5)), compiled(rows(3, 4, 5)))
    same(f(rows(2, 7, 3)), compiled(rows(2, 7, 3)))


def test_arguments_are_read_where_they_are() -> None:
    @custom_op("dyn_tests::address", mutates_args=(), schema="(Tensor x) -> Tensor")
    def address(x: Any) -> Any:
        return torch.tensor(x.data_ptr())

    address.register_fake(lambda x: torch.empty((), dtype=torch.int64))
    x = rows(4)
    with pytest.warns(FallbackWarning):
        assert dyn_torch.jit(address)(x).item() == x.data_ptr()


def test_random_numbers_come_in_the_order_of_the_program() -> None:
    def f(x: Any) -> Any:
        noise(x)  # draws, though nobody reads it
        return noise(x) + 1, noise(x)

    compiled = dyn_torch.jit(f)
    with pytest.warns(FallbackWarning, match="3 operations"):
        compiled(rows(2))
    for n in (3, 1, 0, 5):
        torch.manual_seed(n)
        wanted = f(rows(n))
        torch.manual_seed(n)
        same(wanted, compiled(rows(n)))


def test_autocast_reaches_into_an_operation() -> None:
    def f(x: Any) -> Any:
        return product(x, x) + x

    compiled = dyn_torch.jit(f)
    for _ in range(2):
        with torch.autocast("cpu", torch.bfloat16), warnings.catch_warnings():
            warnings.simplefilter("ignore", FallbackWarning)
            wanted, found = f(rows(3, 3)), compiled(rows(3, 3))
        same(wanted, found, 2e-2)


def test_what_the_fake_kernel_says_is_checked() -> None:
    with pytest.raises(ShapeError) as error:
        dyn_torch.jit(lambda x: liar(x) + 1)(rows(3))
    assert str(error.value).startswith(
        "dyn_tests.liar.default gave a result of float32 and shape (2,), and its fake kernel said float32 and (3,)."
    )
    assert "test_fallback.py" in str(error.value)


def test_what_an_operation_raises_comes_out() -> None:
    @custom_op("dyn_tests::picky", mutates_args=(), schema="(Tensor x) -> Tensor")
    def picky(x: Any) -> Any:
        if x.numel() > 3:
            raise NotImplementedError("no more than 3")
        return x + 1

    picky.register_fake(torch.empty_like)
    compiled = dyn_torch.jit(lambda x: picky(x) * 2)
    with pytest.warns(FallbackWarning):
        compiled(rows(2))
    with pytest.raises(NotImplementedError, match="no more than 3"):
        compiled(rows(4))
    same(torch.tensor([-2.0]), compiled(rows(1)))
    assert compiled.cache_info().compiles == 1


def cube_backward(context: Any, cotangent: Any) -> Any:
    (x,) = context.saved_tensors
    return cotangent * 3 * x**2


@custom_op("dyn_tests::cube", mutates_args=(), schema="(Tensor x) -> Tensor")
def cube(x: Any) -> Any:
    return x**3


cube.register_fake(torch.empty_like)
cube.register_autograd(cube_backward, setup_context=lambda ctx, inputs, output: ctx.save_for_backward(inputs[0]))


def test_gradients_come_through_an_operation() -> None:
    def f(x: Any) -> Any:
        return (cube(x * 2) + x).sum()

    compiled = dyn_torch.jit(f)
    for n in (3, 0, 1, 5):
        wanted, found = rows(n).requires_grad_(), rows(n).requires_grad_()
        f(wanted).backward()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore" if n == 3 else "error", FallbackWarning)
            compiled(found).backward()
        same(wanted.grad, found.grad)
    assert compiled.cache_info().compiles == 1
    assert "dyn_tests.cube.default" in str(compiled.explain())


def test_an_operation_without_a_derivative() -> None:
    compiled = dyn_torch.jit(lambda x: scaled(x, 2.0) * x)
    with pytest.warns(FallbackWarning):
        result = compiled(rows(3).requires_grad_())
    same(rows(3) ** 2 * 2, result.detach())
    with pytest.raises(RuntimeError, match="register_autograd"):
        result.sum().backward()


def test_threads() -> None:
    def f(x: Any) -> Any:
        return scaled(x + 1, 2.0).sum()

    compiled = dyn_torch.jit(f)
    errors: list[BaseException] = []

    def work() -> None:
        try:
            for n in range(20):
                same(f(rows(n)), compiled(rows(n)))
        except BaseException as error:
            errors.append(error)

    with pytest.warns(FallbackWarning):
        compiled(rows(1))
    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []


# Whole calls ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (lambda x: count(x) + 1, "whose results have sizes that depend on data"),
        (lambda x: unknown(x) * 2, 'register one: torch.library.register_fake("dyn_tests::unknown")'),
        (lambda x: torch.from_numpy(x.numpy() + 1), "RuntimeError"),
        (lambda x: x + x.data_ptr() * 0, "RuntimeError"),
        (lambda x: x.to(torch.complex32).real.float(), "torch.complex32"),
        (lambda x: x.to_sparse().to_dense(), ""),
    ],
    ids=["sizes of data", "no fake kernel", "numpy", "address", "dtype", "sparse"],
)
@pytest.mark.filterwarnings("ignore:ComplexHalf:UserWarning")
def test_a_call_that_cannot_be_traced_is_made_by_pytorch(function: Callable[..., Any], reason: str) -> None:
    compiled = dyn_torch.jit(function)
    with pytest.warns(FallbackWarning) as caught:
        same(function(rows(4)), compiled(rows(4)))
    ours = [one for one in caught if one.category is FallbackWarning]
    assert len(ours) == 1
    text = str(ours[0].message)
    assert text.startswith("<lambda> runs in eager PyTorch: ")
    assert reason in text or reason in str(compiled.explain()) or "register_fake" in reason
    assert "at test_fallback.py:" in text
    for n in (1, 0, 6):  # and no word more
        same(function(rows(n)), compiled(rows(n)))
    assert not any(compiled.cache_info())
    assert text.splitlines()[0].removeprefix("<lambda> runs") in str(compiled.explain()).replace("calls", "", 1)
    with pytest.raises(Exception):  # noqa: B017  # each of another class
        dyn_torch.jit(function, strict=True)(rows(4))


def test_errors_that_pytorch_raises_too_are_its_own_and_nothing_is_said() -> None:
    class Unfinished(torch.nn.Module):
        pass

    with pytest.raises(NotImplementedError, match='missing the required "forward" function'):
        dyn_torch.jit(Unfinished())(rows(2))
    with pytest.raises(ZeroDivisionError):
        dyn_torch.jit(lambda x: x / (1 // 0))(rows(2))


def test_what_does_not_fit_is_no_reason_to_fall_back() -> None:
    with pytest.raises(ShapeError):
        dyn_torch.jit(lambda x, y: x @ y)(rows(2, 3), rows(2, 3))


def test_a_branch_that_cannot_be_traced_leaves_the_others_compiled() -> None:
    def f(x: Any) -> Any:
        return x * 2 if x.shape[0] > 3 else count(x)

    compiled = dyn_torch.jit(f)
    same(f(rows(5)), compiled(rows(5)))
    with pytest.warns(FallbackWarning):
        same(f(rows(3)), compiled(rows(3)))
    for n in (2, 9, 3, 4):
        same(f(rows(n)), compiled(rows(n)))
    assert compiled.cache_info()[:2] == (1, 2)


def test_what_a_failed_trace_would_have_written_is_written_once() -> None:
    total = torch.zeros(())

    def f(x: Any) -> Any:
        total.add_(x.sum())
        x.mul_(2)
        return count(x)

    compiled = dyn_torch.jit(f)
    x = torch.ones(3)
    with pytest.warns(FallbackWarning):
        same(torch.full((3,), 2.0), compiled(x))
    same(torch.tensor(3.0), total)
    same(torch.full((3,), 2.0), x)


class Own(torch.Tensor):
    pass


ARGUMENTS = {
    "a tensor of the class Own": lambda: torch.ones(3).as_subclass(Own),
    "a tensor of the layout torch.sparse_coo": lambda: torch.ones(3).to_sparse(),
    "a tensor on meta": lambda: torch.ones(3, device="meta"),
    "a tensor of torch.quint8": lambda: torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.quint8),
    "a tensor of torch.complex32": lambda: torch.ones(3, dtype=torch.complex32),
    "a nested tensor": lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]),
}


@pytest.mark.parametrize("kind", ARGUMENTS)
@pytest.mark.filterwarnings("ignore:.*(nested tensors|quantize|ComplexHalf):UserWarning")
@pytest.mark.filterwarnings("ignore:.*quantiz.*:DeprecationWarning")
def test_arguments_that_programs_do_not_take(kind: str) -> None:
    function = torch.clone
    compiled = dyn_torch.jit(function)
    for number in range(2):
        tensor = ARGUMENTS[kind]()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found = compiled(tensor)
        ours = [str(one.message) for one in caught if one.category is FallbackWarning]
        assert [text.splitlines()[0] for text in ours] == [f"clone runs in eager PyTorch: {kind}."][number:]
        assert (type(found), found.dtype, found.layout) == (type(tensor), tensor.dtype, tensor.layout)
    same(torch.ones(3), compiled(torch.ones(3)))  # and others are compiled
    assert compiled.cache_info().compiles == 1
    with pytest.raises(UnsupportedOpError, match=f"^{kind}"):
        dyn_torch.jit(function, strict=True)(ARGUMENTS[kind]())


@pytest.mark.parametrize(
    ("f", "kind"),
    [
        (lambda x: x.permute(0, 0), RuntimeError),
        (lambda x: x @ x, RuntimeError),
        (lambda x: x + torch.ones(x.shape[1] + 1), RuntimeError),
        (lambda x: x.reshape(7), RuntimeError),
        (lambda x: torch.cat([x, torch.ones(2, 2)]), RuntimeError),
        (lambda x: x.sum(5), IndexError),
        (lambda x: x.softmax(-4), IndexError),
        (lambda x: x.transpose(0, 7), IndexError),
    ],
)
def test_errors_are_of_pytorchs_classes(f: Callable[[Any], Any], kind: type[Exception]) -> None:
    x = torch.randn(3, 4)
    for compiled in (dyn_torch.jit(f), dyn_torch.jit(f, strict=True), f):
        with pytest.raises(kind):
            compiled(x)


def test_errors_that_a_function_catches() -> None:
    """What no size decides: sizes are checked when the program runs."""

    def caught(x: Any) -> Any:
        try:
            return x.permute(0, 0)
        except RuntimeError:
            x = x + 0.5
        try:
            return x.sum(5)
        except IndexError:
            return x + 1

    x = torch.randn(3, 4)
    assert torch.equal(dyn_torch.jit(caught, strict=True)(x), caught(x))


def test_hooks_that_a_function_registers_once() -> None:
    """As libraries do that record what layers give: no hook is left of a trace, and later calls are compiled."""

    class Recorded(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(3, 3)
            self.is_ready = False

        def forward(self, x: Any) -> Any:
            if not self.is_ready:
                self.layer.register_forward_hook(lambda module, args, made: made + 1)
                self.is_ready = True
            return self.layer(x)

    model = Recorded()
    again = copy.deepcopy(model)
    compiled = dyn_torch.jit(again, strict=True)  # PyTorch makes the call that registers them, and leaves none undone
    for rows in (2, 1, 5):
        x = torch.randn(rows, 3)
        torch.testing.assert_close(compiled(x), model(x))
        assert len(again.layer._forward_hooks) == 1
    assert compiled.cache_info().compiles == 1


@pytest.mark.parametrize("strict", [False, True])
def test_hooks_that_each_call_registers(strict: bool) -> None:
    """They are no preparation: the second call that does it is refused, or PyTorch's."""
    layer = torch.nn.Linear(3, 3)

    def hooked(x: Any) -> Any:
        handle = layer.register_forward_hook(lambda module, args, made: made + 1)
        made = layer(x)
        if x.shape[0] < 100:
            layer.register_forward_hook(lambda module, args, made: made)
        handle.remove()
        return made

    compiled = dyn_torch.jit(hooked, strict=strict)
    x = torch.randn(2, 3)
    torch.testing.assert_close(compiled(x), layer(x) + 1)
    assert len(layer._forward_hooks) == 1
    if strict:
        with pytest.raises(NotYetError, match="a hook of a Linear that the function registers"):
            compiled(x)
        assert len(layer._forward_hooks) == 1
    else:
        with pytest.warns(FallbackWarning, match="a hook of a Linear that the function registers"):
            torch.testing.assert_close(compiled(x), layer(x) + 1)
        assert len(layer._forward_hooks) == 2


def test_shapes_of_ids_without_a_dtype() -> None:
    model = torch.nn.Sequential(torch.nn.Embedding(10, 4), torch.nn.Linear(4, 4))
    problems = {
        (8, 128): "Sequential(8, 128) is a call with numbers and without arrays, and it fails: TypeError: "
        "Sequential.forward() takes 2 positional arguments but 3 were given.",
        ((8, 128),): "Sequential((8, 128)) is a call with numbers and without arrays, and it fails: TypeError: "
        "embedding(): argument 'indices' (position 2) must be Tensor, not tuple.",
    }
    for given, problem in problems.items():
        with pytest.raises(ArgumentError) as caught:  # a warning would be another error
            dyn_torch.jit(model).prepare([given])
        assert caught.value.problem == f"prepare: {problem}"
        assert caught.value.remedy == (
            "pass dyn.ShapeDtypeStruct((8, 128), dtype), with the dtype that the array has: 'float32', "
            "or 'int64' for ids."
        )
    with pytest.warns(FallbackWarning) as found:
        dyn_torch.jit(model).prepare([ShapeDtypeStruct((8, 128), "float32")])
    assert "but got torch.float32 instead" in str(found[0].message)
    assert "\n  it is prepared for float32[8, 128]\n" in str(found[0].message)
    run = dyn_torch.jit(model, strict=True)
    run.prepare([ShapeDtypeStruct((8, 128), "int64")])
    assert run.cache_info().compiles == 1
