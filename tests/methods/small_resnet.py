"""A network as a user may bring: batch normalisation, strides, shortcuts, layers without bias."""

from torch import nn
from torch.nn import functional


class Block(nn.Module):
    """Two convolutions with batch normalisation, the first with stride 2, beside a shortcut."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.first = nn.Conv2d(inputs, outputs, 3, stride=2, padding=1, bias=False)
        self.second = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.shortcut = nn.Conv2d(inputs, outputs, 1, stride=2)
        self.norms = nn.ModuleList(nn.BatchNorm2d(outputs) for _ in range(2))

    def forward(self, x):
        inner = functional.relu(self.norms[0](self.first(x)), inplace=True)
        return functional.relu(self.norms[1](self.second(inner)) + self.shortcut(x))


class SmallResNet(nn.Module):
    """Two blocks, pooled to one number a channel, and batch normalisation of those."""

    def __init__(self, shape):
        super().__init__()
        self.blocks = nn.Sequential(Block(shape[0], 8), Block(8, 16))
        self.norm = nn.BatchNorm1d(16)

    def forward(self, images):
        return self.norm(self.blocks(images.float() / 127.5 - 1).mean((2, 3)))
