#!/usr/bin/env python3
"""The peer of `rondo train`: PyTorch on the CPU, with DistributedDataParallel over Gloo where there
is more than one rank. Same models, initial weights, samples in the same order, and optimizer.

usage: pytorch.py [--model mlp|cnn|resnet18] [--ranks N] [--batch B] [--steps S] [--seed S]
                  [--data FOLDER | --random] [--bucket-cap-mb MB] [--bfloat16]

Prints one line of JSON: the median, fastest and all steps' milliseconds, and the mean loss of each
step. --random trains on noise of 3 x 32 x 32 (for times alone); else on Fashion-MNIST. --bfloat16
is PyTorch's autocast. One compute thread a rank, pinned to a core of its own where there are
enough.
"""

import argparse
import gzip
import json
import os
import pathlib
import statistics
import sys
import time

import numpy
import torch
import torch.distributed
import torch.multiprocessing
from torch import nn

GOLDEN_RATIO = 0x9E3779B97F4A7C15
MASK = (1 << 64) - 1


def numbers(seed, count):
    """The first numbers of SplitMix64."""
    with numpy.errstate(over="ignore"):
        z = numpy.uint64(seed & MASK) + numpy.uint64(GOLDEN_RATIO) * numpy.arange(
            1, count + 1, dtype=numpy.uint64)
        z = (z ^ (z >> numpy.uint64(30))) * numpy.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> numpy.uint64(27))) * numpy.uint64(0x94D049BB133111EB)
        return z ^ (z >> numpy.uint64(31))


def sample_order(count, seed, epoch):
    draws = numbers(int(numbers(seed, 1)[0]) + epoch, count - 1)
    order = list(range(count))
    for draw, i in zip(draws.tolist(), range(count, 1, -1)):
        j = ((draw >> 32) * i) >> 32
        order[i - 1], order[j] = order[j], order[i - 1]
    return order


def initialise(model, seed):
    """He's variance, drawn evenly, in the order of definition; biases 0, scales 1."""
    drawn = 0
    with torch.no_grad():
        for module in model.modules():
            if isinstance(module, (nn.Linear, nn.Conv2d)):
                weight = module.weight
                fan_in = weight[0].numel()
                some = numbers(seed + GOLDEN_RATIO * drawn, weight.numel())
                drawn += weight.numel()
                even = (some >> numpy.uint64(11)).astype(numpy.float64) * 2.0**-52 - 1.0
                values = (numpy.sqrt(6.0 / fan_in) * even).astype(numpy.float32)
                weight.copy_(torch.from_numpy(values).reshape(weight.shape))
                if module.bias is not None:
                    module.bias.zero_()


def mlp(inputs, classes):
    widths = [inputs[0] * inputs[1] * inputs[2], 256, 128, 64, classes]
    layers = [nn.Flatten()]
    for here, there in zip(widths, widths[1:]):
        layers += [nn.Linear(here, there), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def cnn(inputs, classes):
    return nn.Sequential(
        nn.Conv2d(inputs[0], 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(64 * (inputs[1] // 4) * (inputs[2] // 4), 128), nn.ReLU(),
        nn.Linear(128, classes))


class Block(nn.Module):
    def __init__(self, channels, outputs, stride):
        super().__init__()
        self.main = nn.Sequential(
            nn.Conv2d(channels, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs),
            nn.ReLU(),
            nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False), nn.BatchNorm2d(outputs))
        self.shortcut = nn.Sequential()
        if stride != 1 or channels != outputs:
            self.shortcut = nn.Sequential(
                nn.Conv2d(channels, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        return torch.relu(self.main(x) + self.shortcut(x))


def resnet18(inputs, classes):
    layers = [nn.Conv2d(inputs[0], 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU()]
    channels = 64
    for outputs, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
        layers += [Block(channels, outputs, stride), Block(outputs, outputs, 1)]
        channels = outputs
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, classes))


MODELS = {"mlp": mlp, "cnn": cnn, "resnet18": resnet18}


def read(folder, name):
    packed = pathlib.Path(folder) / f"{name}-ubyte.gz"
    data = gzip.open(packed).read() if packed.exists() else packed.with_suffix("").read_bytes()
    return numpy.frombuffer(data, numpy.uint8)


def load(options):
    """Images [count x channels x height x width], normalised, and labels."""
    if options.random:
        generator = torch.Generator().manual_seed(options.seed)
        count = options.batch * options.ranks * 2
        return (torch.randn(count, 3, 32, 32, generator=generator),
                torch.randint(10, (count,), generator=generator))
    images = read(options.data, "train-images-idx3")[16:].reshape(-1, 1, 28, 28)
    labels = read(options.data, "train-labels-idx1")[8:]
    shade = ((numpy.arange(256) / 255.0 - 0.2860) / 0.3530).astype(numpy.float32)
    return torch.from_numpy(shade[images]), torch.from_numpy(labels.astype(numpy.int64))


def train(rank, options):
    torch.set_num_threads(1)
    cores = sorted(os.sched_getaffinity(0))
    if options.ranks <= len(cores):
        os.sched_setaffinity(0, {cores[rank]})
    images, labels = load(options)
    model = MODELS[options.model](tuple(images.shape[1:]), 10)
    initialise(model, options.seed)
    if options.ranks > 1:
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(options.port))
        torch.distributed.init_process_group("gloo", rank=rank, world_size=options.ranks)
        model = nn.parallel.DistributedDataParallel(
            model, gradient_as_bucket_view=True, bucket_cap_mb=options.bucket_cap_mb)
    optimizer = torch.optim.SGD(model.parameters(), lr=options.learning_rate,
                                momentum=options.momentum)
    step_batch = options.batch * options.ranks
    order = sample_order(len(labels), options.seed, 1)
    loss_of = nn.CrossEntropyLoss()
    times, losses = [], []
    for step in range(options.steps):
        first = step * step_batch % (len(labels) - step_batch + 1)
        own = order[first + rank * options.batch:first + (rank + 1) * options.batch]
        begin = time.perf_counter()
        x, y = images[own], labels[own]
        with torch.autocast("cpu", torch.bfloat16, enabled=options.bfloat16):
            loss = loss_of(model(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        times.append((time.perf_counter() - begin) * 1e3)
        losses.append(float(loss.detach()))
    if options.ranks > 1:
        sums = torch.tensor(losses, dtype=torch.float64)
        torch.distributed.all_reduce(sums)
        losses = (sums / options.ranks).tolist()
    if rank == 0:
        warm = times[min(5, len(times) - 1):]
        print(json.dumps({"peer": f"PyTorch {torch.__version__}", "model": options.model,
                          "ranks": options.ranks, "batch": options.batch,
                          "step_ms": statistics.median(warm), "best_ms": min(warm),
                          "steps_ms": times, "loss": losses}))
        sys.stdout.flush()
    if options.ranks > 1:
        torch.distributed.destroy_process_group()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", choices=MODELS, default="mlp")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--batch", type=int, default=64, help="samples of one rank in a step")
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--learning-rate", type=float, default=0.02)
    parser.add_argument("--momentum", type=float, default=0.9)
    parser.add_argument("--data", default="/usr/share/datasets/fashion-mnist")
    parser.add_argument("--random", action="store_true")
    parser.add_argument("--bfloat16", action="store_true")
    parser.add_argument("--bucket-cap-mb", type=float, default=25)
    parser.add_argument("--port", type=int, default=29511)
    options = parser.parse_args()
    if options.ranks == 1:
        train(0, options)
    else:
        torch.multiprocessing.spawn(train, (options,), options.ranks)


if __name__ == "__main__":
    main()
