"""Trains the perceptron of numpy_mlp.py in a Spark job, and continues after a failure.

    spark-submit --master local-cluster[2,2,1024] --py-files numpy_mlp.py spark_mlp.py
    python spark_mlp.py --ranks 2 --fail       # a rank dies once; Spark starts all again
"""

import argparse
import os
import pathlib
import signal
import tempfile

import numpy
import numpy_mlp
from pyspark import SparkConf
from pyspark.sql import SparkSession

import rondo.spark

STEPS = 200


def job(comm, data, checkpoint, fail):
    """Trains on this rank's partition; rank 0 keeps a checkpoint that all ranks can continue."""
    model = numpy_mlp.Mlp([64, 128, 64, 10])
    done = numpy.zeros(1, "i8")
    if comm.rank == 0 and os.path.exists(checkpoint):
        kept = numpy.load(checkpoint)
        done[0] = kept["done"]
        for name, value in model.values.items():
            value[:] = kept[name]
    comm.broadcast(done)  # the weights are those of rank 0 anyway: GradientReducer sends them

    def after_step(step, loss):
        if comm.rank == 0 and step % 50 == 0:
            numpy.savez(checkpoint + ".new.npz", done=step, **model.values)
            os.replace(checkpoint + ".new.npz", checkpoint)
        if fail and done[0] == 0 and comm.rank == comm.size - 1 and step == 120:
            os.kill(os.getpid(), signal.SIGKILL)

    numpy_mlp.train(comm, model, data["features"], data["label"], STEPS, done=int(done[0]),
                    after_step=after_step)
    return int(done[0]), model.values


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--fail", action="store_true", help="the last rank dies once")
    options = parser.parse_args()
    master = SparkConf().get("spark.master", f"local[{options.ranks}]")  # spark-submit has set it
    spark = SparkSession.builder.master(master).getOrCreate()
    spark.sparkContext.addPyFile(str(pathlib.Path(numpy_mlp.__file__)))
    features, labels = numpy_mlp.samples(8000)
    samples = spark.createDataFrame(list(zip(features.tolist(), labels.tolist())),
                                    "features array<float>, label int")
    with tempfile.TemporaryDirectory() as folder:  # of a file system that all workers share
        results = rondo.spark.run(job, options.ranks, samples,
                                  args=(os.path.join(folder, "weights.npz"), options.fail))
    done, values = results[0]
    model = numpy_mlp.Mlp([64, 128, 64, 10])
    model.values = values
    print(f"{options.ranks} ranks, continued after step {done}: "
          f"accuracy {model.accuracy(*numpy_mlp.samples(2000, 100)):.3f}")
    spark.stop()


if __name__ == "__main__":
    main()
