"""A rank of test_torchrun_restarts(): counts steps. Rank 1 dies in one of them in the first run."""

import json
import os
import pathlib
import sys

import torch
import torch.distributed as dist

import rondo_torch  # noqa: F401: registers the backend
from harness import die

folder = pathlib.Path(sys.argv[1])
checkpoint = folder / "checkpoint.pt"
dist.init_process_group("rondo")
rank, turn = dist.get_rank(), int(os.environ["TORCHELASTIC_RESTART_COUNT"])
state = torch.load(checkpoint) if checkpoint.exists() else {"step": 0, "sum": torch.zeros(1)}
began = state["step"]
while state["step"] < 10:
    if turn == 0 and rank == 1 and state["step"] == 6:
        die()
    one = torch.ones(1)
    dist.all_reduce(one)
    state = {"step": state["step"] + 1, "sum": state["sum"] + one}
    if rank == 0 and state["step"] == 5:
        torch.save(state, checkpoint.with_suffix(".new"))
        checkpoint.with_suffix(".new").rename(checkpoint)
(folder / f"rank{rank}.json").write_text(
    json.dumps({"turn": turn, "began": began, "sum": int(state["sum"].item())}))
dist.destroy_process_group()
