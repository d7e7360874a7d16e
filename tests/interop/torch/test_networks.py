"""Networks of pictures, clicks and texts, as torchvision and others have them: as in PyTorch, from one program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")
nn = torch.nn
F = nn.functional

import dyn.interop.torch as dyn_torch  # noqa: E402
from tests.interop.torch.comparing import same  # noqa: E402  # needs PyTorch
from tests.interop.torch.whole import nothing_fell_back  # noqa: E402


def normalized(convolution: Any) -> Any:
    return nn.Sequential(convolution, nn.BatchNorm2d(convolution.out_channels))


class Bottleneck(nn.Module):
    """A block of ResNet: 1 × 1, 3 × 3 and 1 × 1 convolutions beside a shortcut."""

    def __init__(self, channels: int, width: int, stride: int) -> None:
        super().__init__()
        out = 2 * channels
        self.reduce = normalized(nn.Conv2d(channels, width, 1, bias=False))
        self.mix = normalized(nn.Conv2d(width, width, 3, stride, padding=1, bias=False))
        self.widen = normalized(nn.Conv2d(width, out, 1, bias=False))
        self.shortcut = normalized(nn.Conv2d(channels, out, 1, stride, bias=False))

    def forward(self, x: Any) -> Any:
        y = F.relu(self.mix(F.relu(self.reduce(x), inplace=True)), inplace=True)
        return F.relu(self.widen(y) + self.shortcut(x), inplace=True)


class SqueezeExcite(nn.Module):
    """Channels weighted by what their means say."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.squeeze, self.excite = nn.Conv2d(channels, channels // 4, 1), nn.Conv2d(channels // 4, channels, 1)

    def forward(self, x: Any) -> Any:
        means = F.adaptive_avg_pool2d(x, 1)
        return x * F.hardsigmoid(self.excite(F.relu(self.squeeze(means))))


class InvertedResidual(nn.Module):
    """A block of MobileNetV3: widened, convolved in depth, weighted, narrowed, and added to what came in."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        wide = 4 * channels
        self.layers = nn.Sequential(
            normalized(nn.Conv2d(channels, wide, 1, bias=False)), nn.Hardswish(inplace=True),
            normalized(nn.Conv2d(wide, wide, 5, padding=2, groups=wide, bias=False)), nn.Hardswish(inplace=True),
            SqueezeExcite(wide), normalized(nn.Conv2d(wide, channels, 1, bias=False)),
        )  # fmt: skip

    def forward(self, x: Any) -> Any:
        return x + self.layers(x)


class ConvNeXt(nn.Module):
    """A block of ConvNeXt: a convolution in depth, then a perceptron on channels that are last."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.depth = nn.Conv2d(channels, channels, 7, padding=3, groups=channels)
        self.norm = nn.LayerNorm(channels)
        self.up, self.down = nn.Linear(channels, 4 * channels), nn.Linear(4 * channels, channels)
        self.scale = nn.Parameter(torch.full((channels,), 0.5))

    def forward(self, x: Any) -> Any:
        y = self.norm(self.depth(x).permute(0, 2, 3, 1))
        return x + (self.scale * self.down(F.gelu(self.up(y)))).permute(0, 3, 1, 2)


class DenseLayers(nn.Module):
    """Layers of DenseNet: each reads what all before it wrote."""

    def __init__(self, channels: int, growth: int, count: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Conv2d(channels + i * growth, growth, 3, padding=1) for i in range(count))

    def forward(self, x: Any) -> Any:
        seen = [x]
        for layer in self.layers:
            seen.append(F.relu(layer(torch.cat(seen, 1))))
        return F.max_pool2d(torch.cat(seen, 1), 3, stride=2, padding=1)


class Pyramid(nn.Module):
    """Features of two sizes, the smaller one enlarged to the other's, whatever that is; a U-Net has the same."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 8, 3, 2, 1), nn.Conv2d(8, 16, 3, 2, 1)
        self.lateral, self.inner = nn.Conv2d(8, 8, 1), nn.Conv2d(16, 8, 1)

    def forward(self, x: Any) -> list[Any]:
        large = F.relu(self.first(x))
        small = self.inner(F.relu(self.second(large)))
        return [self.lateral(large) + F.interpolate(small, size=large.shape[-2:], mode="nearest"), small]


class Detector(nn.Module):
    """A dense head: scores and boxes of each place of a picture, the best 5 of all of them, and how these overlap."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Conv2d(3, 8, 3, 2, 1)
        self.scores, self.boxes = nn.Conv2d(8, 4, 1), nn.Conv2d(8, 4, 1)

    def forward(self, pictures: Any) -> tuple[Any, ...]:
        features = F.relu(self.features(pictures))
        height, width = features.shape[-2:]
        y, x = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
        centres = 2 * torch.stack([x, y], -1).reshape(-1, 2) + 1.0
        scores = self.scores(features).sigmoid().flatten(2).transpose(1, 2)
        sides = F.softplus(self.boxes(features)).flatten(2).transpose(1, 2)
        boxes = torch.cat([centres - sides[..., :2], centres + sides[..., 2:]], -1)
        boxes = torch.stack([boxes[..., 0::2].clamp(0, 2 * width), boxes[..., 1::2].clamp(0, 2 * height)], -1).flatten(
            2
        )
        best, kinds = scores.max(-1)
        best, places = best.topk(5, dim=-1)
        boxes = boxes.gather(1, places[..., None].expand(-1, -1, 4))
        return boxes, best, kinds.gather(1, places), overlaps(boxes)


def overlaps(boxes: Any) -> Any:
    """Intersection over union of each two boxes ``(x0, y0, x1, y1)`` of a picture."""
    low = torch.maximum(boxes[:, :, None, :2], boxes[:, None, :, :2])
    high = torch.minimum(boxes[:, :, None, 2:], boxes[:, None, :, 2:])
    shared = (high - low).clamp(min=0).prod(-1)
    areas = (boxes[..., 2:] - boxes[..., :2]).prod(-1)
    return shared / (areas[:, :, None] + areas[:, None, :] - shared)


class Recommender(nn.Module):
    """A DLRM: a perceptron of numbers and rows of tables, products of each two of them, and another perceptron."""

    def __init__(self, tables: int = 3, width: int = 8) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(50, width) for _ in range(tables))
        self.bottom = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, width), nn.ReLU())
        pairs = (tables + 1) * tables // 2
        self.top = nn.Sequential(nn.Linear(width + pairs, 16), nn.ReLU(), nn.Linear(16, 1), nn.Sigmoid())

    def forward(self, numbers: Any, kinds: Any) -> Any:
        dense = self.bottom(numbers)
        # Of each table the sum of several rows.
        rows = [table(kinds[:, place]).sum(1) for place, table in enumerate(self.tables)]
        features = torch.stack([dense, *rows], 1)
        products = torch.bmm(features, features.transpose(1, 2))
        i, j = torch.tril_indices(products.shape[1], products.shape[2], offset=-1)
        return self.top(torch.cat([dense, products[:, i, j]], 1)).squeeze(1)


class Tagger(nn.Module):
    """Words by convolutions along a text, and the greatest of each feature over all of it."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(30, 8)
        self.filters = nn.ModuleList(nn.Conv1d(8, 4, width, padding=width // 2) for width in (1, 3, 5))
        self.last = nn.Linear(12, 3)

    def forward(self, words: Any) -> Any:
        x = self.words(words).transpose(1, 2)
        return self.last(torch.cat([F.relu(f(x)).amax(-1) for f in self.filters], -1)).log_softmax(-1)


Sizes = tuple[int, ...]


def pictures(channels: int) -> Callable[..., tuple[Any, ...]]:
    return lambda batch, height, width: (torch.randn(batch, channels, height, width),)


def clicks(batch: int, bag: int) -> tuple[Any, ...]:
    return torch.randn(batch, 4), torch.randint(0, 50, (batch, 3, bag))


def text(batch: int, length: int) -> tuple[Any, ...]:
    return (torch.randint(0, 30, (batch, length)),)


PICTURES = ((2, 8, 8), (1, 6, 10), (3, 9, 7))
NETWORKS: dict[str, tuple[Callable[[], Any], Callable[..., tuple[Any, ...]], tuple[Sizes, ...]]] = {
    "bottleneck": (lambda: Bottleneck(8, 4, 2), pictures(8), (*PICTURES, (1, 1, 1))),
    "inverted residual": (lambda: InvertedResidual(8), pictures(8), (*PICTURES, (1, 1, 1))),
    "convnext": (lambda: ConvNeXt(8), pictures(8), (*PICTURES, (2, 1, 1))),
    "dense layers": (lambda: DenseLayers(4, 4, 3), pictures(4), PICTURES),
    "pyramid": (Pyramid, pictures(3), PICTURES),
    "detector": (Detector, pictures(3), PICTURES),
    "recommender": (Recommender, clicks, ((4, 3), (1, 1), (7, 2))),
    "tagger": (Tagger, text, ((2, 7), (1, 5), (3, 1))),
}  # fmt: skip


@pytest.mark.parametrize("name", NETWORKS)
def test_inference_is_one_program(name: str) -> None:
    make, draw, shapes = NETWORKS[name]
    torch.manual_seed(0)
    network = make()
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):  # statistics of training
            module.running_mean.normal_()
            module.running_var.uniform_(0.5, 2)
    network.eval()
    compiled = dyn_torch.jit(network)
    for mode in (torch.inference_mode, torch.no_grad):
        with mode():
            for shape in shapes:
                arguments = draw(*shape)
                same(network(*arguments), compiled(*arguments))
    assert compiled.cache_info().compiles == 1
    nothing_fell_back(compiled)


@pytest.mark.parametrize("mode", [torch.inference_mode, torch.enable_grad])
@pytest.mark.parametrize("name", NETWORKS)
def test_torch_compile(name: str, mode: Any) -> None:
    torch._dynamo.reset()
    make, draw, shapes = NETWORKS[name]
    torch.manual_seed(0)
    network = make().eval()
    compiled = torch.compile(network, backend="dyn", dynamic=True, fullgraph=True)
    with mode():
        for shape in shapes[:2]:
            arguments = draw(*shape)
            wanted, found = network(*arguments), compiled(*arguments)
            same(wanted, found, in_strides=False)
            if mode is torch.enable_grad:
                weights = [*network.parameters()]
                losses = [
                    sum(one.square().sum() for one in torch.utils._pytree.tree_leaves(y)) for y in (wanted, found)
                ]
                same(*(torch.autograd.grad(loss, weights) for loss in losses), in_strides=False)
    nothing_fell_back(compiled)
    torch._dynamo.reset()


def test_channels_last() -> None:
    make, draw, shapes = NETWORKS["bottleneck"]
    torch.manual_seed(0)
    network = make().eval().to(memory_format=torch.channels_last)
    compiled = dyn_torch.jit(network)
    with torch.no_grad():
        for shape in shapes[:3]:
            x = draw(*shape)[0].contiguous(memory_format=torch.channels_last)
            same(network(x), compiled(x))
    assert compiled.cache_info().compiles == 1
