"""Tests torchrun: after a worker is killed, the job continues with new workers."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

WORKER = pathlib.Path(__file__).with_name("elastic_worker.py")


def test_torchrun_restarts():
    with tempfile.TemporaryDirectory() as folder:
        run = subprocess.run(
            [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=3",
             "--max-restarts=2", "--monitor-interval=0.2", str(WORKER), folder],
            env=os.environ | {"OMP_NUM_THREADS": "1"}, capture_output=True, text=True, timeout=180)
        assert run.returncode == 0, run.stderr[-4000:]
        results = [json.loads((pathlib.Path(folder) / f"rank{rank}.json").read_text())
                   for rank in range(3)]
    # Rank 1 died in step 6 of the first turn. The second turn began at the checkpoint.
    assert all(one == {"turn": 1, "began": 5, "sum": 3 * 10} for one in results), results
