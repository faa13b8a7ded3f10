"""Tests that training with DDP, FSDP and ZeRO gives the same results over Rondo and over Gloo."""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

from harness import ranks

STEPS = 20


class Cnn(nn.Module):
    def __init__(self):
        super().__init__()
        self.convolutions = nn.Sequential(
            nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(8, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2))
        self.linear = nn.Sequential(nn.Linear(16 * 4 * 4, 64), nn.ReLU(), nn.Linear(64, 10))

    def forward(self, images):
        return self.linear(self.convolutions(images).flatten(1))


class Transformer(nn.Module):
    def __init__(self, width=32, tokens=50):
        super().__init__()
        self.embedding = nn.Embedding(tokens, width)
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(width, 4, 2 * width, dropout=0.0, batch_first=True)
            for _ in range(2))
        self.head = nn.Linear(width, tokens)

    def forward(self, tokens):
        hidden = self.embedding(tokens)
        for block in self.blocks:
            hidden = block(hidden)
        return self.head(hidden)


def batches(rank, steps=STEPS):
    """Yields batches. Every second step has the same samples, so that the model can learn."""
    for step in range(steps):
        generator = torch.Generator().manual_seed(100 + 2 * rank + step % 2)
        yield (torch.rand(8, 1, 16, 16, generator=generator),
               torch.randint(0, 10, (8,), generator=generator))


def whole(loss):
    """Returns the mean over the ranks."""
    loss = loss.detach().clone()
    dist.all_reduce(loss)
    return loss.item() / dist.get_world_size()


def ddp(rank, size, settings, zero):
    torch.manual_seed(rank)  # DDP must give all ranks rank 0's weights
    # Small buckets: there are many, and they start during the backward pass.
    model = DistributedDataParallel(Cnn(), bucket_cap_mb=0.005, **settings)
    if zero:
        from torch.distributed.optim import ZeroRedundancyOptimizer
        optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, lr=0.01)
    else:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    losses = []
    for images, labels in batches(rank):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        losses.append(whole(loss))
    total = sum(weights.double().sum() for weights in model.parameters())
    return losses, total.item()


def fsdp(rank, size, wrapper):
    torch.manual_seed(0)
    model = Transformer()
    if wrapper == "fully_shard":
        from torch.distributed.fsdp import fully_shard
        mesh = dist.init_device_mesh("cpu", (size,))
        for block in model.blocks:
            fully_shard(block, mesh=mesh)
        fully_shard(model, mesh=mesh)
    else:
        from torch.distributed.fsdp import FullyShardedDataParallel, wrap
        policy = wrap.ModuleWrapPolicy({nn.TransformerEncoderLayer})
        model = FullyShardedDataParallel(model, auto_wrap_policy=policy,
                                         device_id=torch.device("cpu"))
    # Not Adam: its first steps turn a rounding error of a small gradient into a whole step.
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    tokens = torch.randint(0, 50, (4, 12), generator=torch.Generator().manual_seed(rank))
    losses = []
    for _ in range(STEPS):
        loss = F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(whole(loss))
    return losses, 0.0


def compare(size, body, *arguments):
    """Rondo's losses and weights must equal Gloo's on all ranks."""
    ours = ranks(size, body, *arguments)
    theirs = ranks(size, body, *arguments, backend="gloo")
    for (losses, total), (expected, expected_total) in zip(ours, theirs):
        assert losses == ours[0][0] and total == ours[0][1], "the ranks' models differ"
        torch.testing.assert_close(torch.tensor(losses), torch.tensor(expected), rtol=1e-5, atol=0)
        torch.testing.assert_close(total, expected_total, rtol=1e-4, atol=1e-4)
    assert ours[0][0][-1] < ours[0][0][0], "nothing was learned"


def accumulating(rank, size):
    """no_sync(), unused parameters and uneven inputs."""
    torch.manual_seed(0)
    model = DistributedDataParallel(Cnn(), find_unused_parameters=True)
    steps = list(batches(rank, 4 + rank))
    losses = []
    with model.join():
        for i, (images, labels) in enumerate(steps):
            if i == 1:
                with model.no_sync():
                    F.cross_entropy(model(images), labels).backward()
                continue
            F.cross_entropy(model(images), labels).backward()
            with torch.no_grad():
                for weights in model.parameters():
                    weights -= 0.01 * weights.grad
                    weights.grad = None
    losses.append(sum(weights.double().sum().item() for weights in model.module.parameters()))
    return losses + [losses[0] - 1], 0.0


def test_ddp():
    for size in (2, 3):
        compare(size, ddp, {}, False)
    compare(2, ddp, {"gradient_as_bucket_view": True, "static_graph": True}, False)


def test_zero():
    compare(2, ddp, {}, True)


def test_ddp_accumulates_and_joins():
    compare(2, accumulating)


def test_fsdp():
    compare(2, fsdp, "fully_shard")
    compare(3, fsdp, "fully_shard")
    compare(2, fsdp, "FullyShardedDataParallel")
