"""DistributedDataParallel over Rondo on processes that Spark's TorchDistributor starts.

    python spark_torch.py --ranks 2 --local                # processes of the driver's machine
    spark-submit --master local-cluster[2,1,1024] spark_torch.py --ranks 2    # tasks of executors

Needs PySpark, torch and rondo_torch where the processes run.
"""

import argparse

from pyspark import SparkConf
from pyspark.ml.torch.distributor import TorchDistributor
from pyspark.sql import SparkSession


def train(steps):
    """Logistic regression on samples of each rank's own. TorchDistributor returns rank 0's."""
    import torch
    import torch.distributed
    from torch.nn.parallel import DistributedDataParallel

    torch.distributed.init_process_group("rondo")  # in place of "gloo"
    rank, size = torch.distributed.get_rank(), torch.distributed.get_world_size()
    chance = torch.Generator().manual_seed(rank)
    truth = torch.linspace(-1, 1, 20)
    x = torch.randn(4000, 20, generator=chance)
    y = (x @ truth > 0).float()
    torch.manual_seed(1 + rank)  # DDP sends rank 0's weights to all
    model = DistributedDataParallel(torch.nn.Linear(20, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    for _ in range(steps):
        optimizer.zero_grad()
        loss = torch.nn.functional.binary_cross_entropy_with_logits(model(x)[:, 0], y)
        loss.backward()
        optimizer.step()
    weights = torch.nn.utils.parameters_to_vector(model.parameters()).detach()
    of_all = [torch.empty_like(weights) for _ in range(size)]
    torch.distributed.all_gather(of_all, weights)
    right = ((model(x)[:, 0] > 0) == (y > 0)).float().sum()
    torch.distributed.all_reduce(right)
    result = {"ranks": size, "backend": torch.distributed.get_backend(),
              "accuracy": right.item() / (size * len(y)),
              "equal weights": all(torch.equal(weights, other) for other in of_all)}
    torch.distributed.destroy_process_group()
    return result


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--local", action="store_true", help="do not use Spark's executors")
    options = parser.parse_args()
    master = SparkConf().get("spark.master", f"local[{options.ranks}]")  # spark-submit has set it
    spark = SparkSession.builder.master(master).getOrCreate()
    distributor = TorchDistributor(num_processes=options.ranks, local_mode=options.local,
                                   use_gpu=False)
    print(distributor.run(train, 100))
    spark.stop()


if __name__ == "__main__":
    main()
