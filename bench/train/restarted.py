#!/usr/bin/env python3
"""A worker of bench/train/recovery: torchrun starts it, and starts it again after a worker's death.

usage: torchrun ... restarted.py FIFO CHECKPOINT BATCH

Trains the MLP of pytorch.py on random samples by DistributedDataParallel over Gloo. Rank 0 saves a
checkpoint after each step, and all ranks load it when they start. Writes lines to FIFO: "began RANK
TURN PID" before PyTorch is imported, and "step RANK TURN PID NUMBER" after each step. TURN is the
number of restarts so far. After a restart it makes 5 steps and ends.
"""

import os
import sys

RANK, TURN = (int(os.environ[name]) for name in ("RANK", "TORCHELASTIC_RESTART_COUNT"))
LINES = os.open(sys.argv[1], os.O_WRONLY)


def say(what, *more):
    line = " ".join(str(word) for word in (what, RANK, TURN, os.getpid(), *more))
    os.write(LINES, f"{line}\n".encode())


say("began")

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch import nn  # noqa: E402

import pytorch  # noqa: E402: the model

STEPS = 1 << 30
STEPS_AFTER_RESTART = 5
SAMPLES = 12800


def train(file, batch):
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(1)
    images = torch.randn(SAMPLES, 1, 28, 28, generator=generator)
    labels = torch.randint(10, (SAMPLES,), generator=generator)
    model = pytorch.mlp((1, 28, 28), 10)
    pytorch.initialise(model, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    done = 0
    if TURN > 0:
        saved = torch.load(file)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        done = saved["done"]
    # The agent's store still has the addresses of the workers before the restart.
    store = dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
    dist.init_process_group("gloo", store=dist.PrefixStore(f"turn {TURN}", store), rank=RANK,
                            world_size=int(os.environ["WORLD_SIZE"]))
    parallel = nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True)
    loss_of = nn.CrossEntropyLoss()
    own = batch // dist.get_world_size()
    last = done + STEPS_AFTER_RESTART if TURN > 0 else STEPS
    while done < last:
        first = (done * batch + RANK * own) % (SAMPLES - own)
        loss_of(parallel(images[first:first + own]), labels[first:first + own]).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        done += 1
        if RANK == 0:
            torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(),
                        "done": done}, file + ".new")
            os.rename(file + ".new", file)
        say("step", done)
    dist.destroy_process_group()


if __name__ == "__main__":
    train(sys.argv[2], int(sys.argv[3]))
