"""Adds up the gradients of all ranks in a Spark job, twice: by Spark's treeAggregate and by Rondo.

usage: aggregate.py [--ranks 4] [--megabytes 25] [--steps 5]

Both leave the sum where the next step needs it, in every task. For treeAggregate that takes a job
for each step: the tasks' arrays go to Python's driver over the tree, and back by a broadcast.
Rondo's ranks are the tasks of one barrier stage. Gradients are ready when the clock starts; for
Spark they are made once and cached by each Python worker. Results are checked.
"""

import argparse
import json
import time
import urllib.request

import numpy
from pyspark.sql import SparkSession

import rondo.spark

CACHE = {}


def gradient(rank, count):
    """The same array in each step; made once in each Python process."""
    key = rank, count
    if key not in CACHE:
        CACHE[key] = numpy.full(count, rank + 1, "f4")
    return CACHE[key]


def by_tree(context, ranks, count, steps):
    """Seconds of each step, and the last sum."""
    tasks = context.parallelize(range(ranks), ranks).cache()
    tasks.count()
    times, weights = [], context.broadcast(numpy.zeros(count, "f4"))
    for _ in range(steps):
        begin = time.perf_counter()
        total = tasks.treeAggregate(
            None,
            lambda sum, rank, seen=weights: (
                gradient(rank, count) + (0 * seen.value[0] if sum is None else sum)),
            lambda a, b: b if a is None else a if b is None else a + b)
        weights.unpersist()
        weights = context.broadcast(total)
        tasks.foreach(lambda rank, seen=weights: seen.value[0])  # every task has it
        times.append(time.perf_counter() - begin)
    return times, total


def by_rondo(comm, count, steps):
    a = numpy.empty(count, "f4")
    times = []
    for _ in range(steps + 1):
        a[:] = gradient(comm.rank, count)
        comm.barrier()
        begin = time.perf_counter()
        comm.all_reduce(a)
        comm.barrier()
        times.append(time.perf_counter() - begin)
    return times[1:], a[0], a[-1], comm.transport_to((comm.rank + 1) % comm.size)


def traffic(context):
    """Stages, and bytes that Spark counts: of shuffles and of results to the driver."""
    url = f"{context.uiWebUrl}/api/v1/applications/{context.applicationId}/stages"
    with urllib.request.urlopen(url) as answer:
        stages = json.load(answer)
    done = [stage for stage in stages if stage["status"] == "COMPLETE"]
    return (len(done), sum(stage["shuffleWriteBytes"] for stage in done),
            sum(stage["resultSize"] for stage in done))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--megabytes", type=float, default=25)
    parser.add_argument("--steps", type=int, default=5)
    given = parser.parse_args()
    count = int(given.megabytes * 1e6 / 4)
    spark = (SparkSession.builder.master(f"local[{given.ranks}]")
             .config("spark.driver.memory", "4g").config("spark.driver.maxResultSize", "4g")
             .config("spark.log.level", "ERROR").getOrCreate())
    context, expected = spark.sparkContext, given.ranks * (given.ranks + 1) / 2

    by_tree(context, given.ranks, count, 1)  # starts Python's workers
    before = traffic(context)
    times, total = by_tree(context, given.ranks, count, given.steps)
    assert total[0] == total[-1] == expected, total
    stages, shuffled, returned = (b - a for a, b in zip(before, traffic(context)))
    tree = sorted(times)[len(times) // 2]
    shuffled, returned = shuffled / given.steps / 1e6, returned / given.steps / 1e6
    print(f"treeAggregate and broadcast: {tree * 1e3:9.1f} ms a step, "
          f"{(stages - 1) / given.steps:.1f} stages, {shuffled:.1f} MB shuffled, "
          f"{returned:.1f} MB to the driver, {given.ranks * count * 4 / 1e6:.0f} MB read from the "
          f"broadcast")

    results = rondo.spark.run(by_rondo, given.ranks, spark=spark, args=(count, 4 * given.steps))
    assert all(first == last == expected for _, first, last, _ in results), results
    slowest = sorted(max(step) for step in zip(*(times for times, *_ in results)))
    rondo_time = slowest[len(slowest) // 2]
    sent = 2 * (given.ranks - 1) * count * 4 / 1e6
    print(f"rondo.spark, over {results[0][3]}:      {rondo_time * 1e3:9.1f} ms a step, "
          f"1 stage for all steps, {sent:.0f} MB sent between ranks\n"
          f"{tree / rondo_time:.0f} times as fast")
    spark.stop()


if __name__ == "__main__":
    main()
