"""Logistic regression on the partitions of a Spark DataFrame.

    python spark_logistic_regression.py --ranks 2
"""

import argparse

import numpy
from pyspark import SparkConf
from pyspark.sql import SparkSession

import rondo.spark


def train(comm, data, steps, rate):
    """Gradient descent on all ranks' samples. Returns the weights, equal on all ranks."""
    x, y = data["features"], data["label"]
    count = comm.all_reduce(numpy.array([len(y)]))[0]
    weights = numpy.zeros(x.shape[1])
    for _ in range(steps):
        odds = 1 / (1 + numpy.exp(-x @ weights))
        weights -= rate * comm.all_reduce(x.T @ (odds - y)) / count
    return weights


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ranks", type=int, default=2)
    options = parser.parse_args()
    master = SparkConf().get("spark.master", f"local[{options.ranks}]")  # spark-submit has set it
    spark = SparkSession.builder.master(master).getOrCreate()
    chance = numpy.random.default_rng(1)
    truth = chance.standard_normal(20)
    x = chance.standard_normal((20000, 20))
    y = (chance.random(len(x)) < 1 / (1 + numpy.exp(-x @ truth))).astype(float)
    samples = spark.createDataFrame(list(zip(x.tolist(), y.tolist())),
                                    "features array<double>, label double")
    weights = rondo.spark.run(train, options.ranks, samples, args=(200, 1.0))[0]
    print(f"accuracy {((x @ weights > 0) == y).mean():.3f}, of the true weights "
          f"{((x @ truth > 0) == y).mean():.3f}; greatest error of a weight "
          f"{abs(weights - truth).max():.3f}")
    spark.stop()


if __name__ == "__main__":
    main()
