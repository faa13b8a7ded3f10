"""Proves what rondo.spark.run() promises, in local mode and on a local cluster of two workers.

Skipped where PySpark or a Java runtime is missing."""

import ast
import importlib.util
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import traceback
import unittest

import numpy

import rondo
from check_calls import DEADLINE

try:
    import pyarrow
    import pyspark
    from pyspark.sql import SparkSession

    import rondo.spark
    MISSING = None if shutil.which("java") else "there is no Java runtime"
except ImportError as error:
    MISSING = str(error)

NO_TORCH = [name for name in ("torch", "rondo_torch") if importlib.util.find_spec(name) is None]
EXAMPLES = pathlib.Path(__file__).resolve().parents[3] / "src/compat/python/examples"
RANKS = 2
OPTIONS = {"spark.ui.enabled": "false", "spark.log.level": "OFF",
           "spark.sql.shuffle.partitions": "3"}


def quiet(builder):
    for name, value in OPTIONS.items():
        builder = builder.config(name, value)
    return builder


@unittest.skipIf(MISSING, f"no Spark: {MISSING}")
class Spark(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        os.environ["PYSPARK_PYTHON"] = sys.executable  # of the workers
        cls.spark = quiet(SparkSession.builder.master(f"local[{RANKS}]")).getOrCreate()

    @classmethod
    def tearDownClass(cls):
        cls.spark.stop()

    def test_results_arrive_by_rank(self):
        def job(comm, factor):
            return comm.rank, comm.size, comm.all_reduce(numpy.full(3, factor * (comm.rank + 1.0)))

        results = rondo.spark.run(job, RANKS, args=(10,))
        for rank, (own, size, total) in enumerate(results):
            self.assertEqual((own, size), (rank, RANKS))
            numpy.testing.assert_array_equal(total, numpy.full(3, 30.0))

    def test_each_row_is_on_one_rank(self):
        rows = [(i, i / 2, [float(i), float(2 * i)], f"row {i}") for i in range(1001)]
        names = "i long, half double, pair array<double>, s string"
        frame = self.spark.createDataFrame(rows, names)
        for partitions in (RANKS, 5):
            data = frame.repartition(partitions)
            arrays = rondo.spark.run(lambda comm, data: data, RANKS, data)
            tables = rondo.spark.run(lambda comm, data: data, RANKS, data, format="arrow")
            batches = rondo.spark.run(lambda comm, data: [one.num_rows for one in data], RANKS,
                                      data, format="batches")
            self.assertEqual(sorted(i for part in arrays for i in part["i"]), list(range(1001)))
            self.assertEqual(sum(map(sum, batches)), 1001)
            self.assertTrue(all(len(part["i"]) > 100 for part in arrays))
            for part in arrays:
                self.assertEqual(part["pair"].shape, (len(part["i"]), 2))
                numpy.testing.assert_array_equal(part["half"], part["i"] / 2)
                numpy.testing.assert_array_equal(part["pair"][:, 1], 2.0 * part["i"])
                self.assertEqual(list(part["s"]), [f"row {i}" for i in part["i"]])
            self.assertIsInstance(tables[0], pyarrow.Table)
            self.assertEqual(sum(table.num_rows for table in tables), 1001)

    def test_a_partition_without_rows_has_all_columns(self):
        frame = self.spark.createDataFrame([(1, [1.0, 2.0], "a")],
                                           "i long, pair array<double>, s string")
        data = frame.repartition(RANKS)  # one rank gets the row
        arrays = rondo.spark.run(lambda comm, data: data, RANKS, data)
        tables = rondo.spark.run(lambda comm, data: data, RANKS, data, format="arrow")
        arrays.sort(key=lambda part: len(part["i"]))
        self.assertEqual([{name: array.shape for name, array in part.items()} for part in arrays],
                         [{"i": (0,), "pair": (0, 0), "s": (0,)},
                          {"i": (1,), "pair": (1, 2), "s": (1,)}])
        self.assertEqual(arrays[0]["i"].dtype, arrays[1]["i"].dtype)
        self.assertEqual(tables[0].schema.types, tables[1].schema.types)
        self.assertEqual(sorted(table.num_rows for table in tables), [0, 1])

    def test_lists_of_different_lengths_are_refused(self):
        frame = self.spark.createDataFrame([([1.0],), ([1.0, 2.0, 3.0],)] * 4, "x array<double>")
        with self.assertRaisesRegex(rondo.Error, 'column "x" has lists of different lengths'):
            rondo.spark.run(lambda comm, data: None, RANKS, frame)

    def test_the_driver_learns_which_rank_raised_and_why(self):
        def job(comm):
            if comm.rank == 1:
                raise ValueError("no such file: seven")
            comm.all_reduce(numpy.ones(1000))

        with self.assertRaises(rondo.Error) as raised:
            rondo.spark.run(job, RANKS)
        self.assertEqual(raised.exception.culprit, 1)
        self.assertIn("ValueError: no such file: seven", str(raised.exception))

    # Proves: whichever rank's failure Spark hears of first, the driver gets the traceback of the
    # one that raised, and of no other.
    def test_the_driver_gets_the_traceback_of_the_rank_that_raised(self):
        def fails_in_here():
            raise ValueError("no such file: " + "x" * 3000)

        class Comm:  # of the rank that raised: keeps what it tells the others
            rank = 1

            def failure(self):
                return None

            def abort(self, reason):
                self.reason = reason

        culprit = Comm()
        try:
            fails_in_here()
        except ValueError as error:
            own = rondo.spark._told(culprit, error)
        self.assertLess(len(culprit.reason.encode()), 2048)

        class Other(Comm):
            rank = 0

            def failure(self):
                return "it failed"

        heard = rondo.Error("all_reduce on rank 0 of 2: rank 1 aborted: " + culprit.reason,
                            "aborted", 1, "all_reduce")
        try:
            raise heard
        except rondo.Error as error:
            other = rondo.spark._told(Other(), error)
        for first in (own, other):
            failure = rondo.spark._failure(Exception(f"Job aborted: {first}"))
            self.assertEqual(failure.culprit, 1)
            self.assertRegex(str(failure), "rank 1 of the Spark job: .*no such file: xxx")
            self.assertIn("in fails_in_here", str(failure))
            self.assertNotIn("raise heard", str(failure))

    def test_the_others_hear_of_an_error_whose_text_utf8_cannot_express(self):
        class Comm:
            rank = 0

            def failure(self):
                return None

            def abort(self, reason):
                self.reason = reason

        comm = Comm()
        failure = rondo.spark._told(comm, ValueError("no such file: \udcff"))
        self.assertIn("rank 0 raised ValueError: no such file: ?", comm.reason)
        "".join(traceback.format_exception(failure)).encode()  # what Spark's worker does

    # The same with Spark, for a rank that raises at once an error that UTF-8 cannot express.
    def test_a_rank_that_raises_while_another_one_waits_is_shown(self):
        def job(comm):
            if comm.rank == 0:
                raise ValueError("no such file: \udcff")
            comm.all_reduce(numpy.ones(1000))

        with self.assertRaises(rondo.Error) as raised:
            rondo.spark.run(job, RANKS)
        self.assertEqual(raised.exception.culprit, 0)
        self.assertIn(r'raise ValueError("no such file: \udcff")', str(raised.exception))
        self.assertNotIn("comm.all_reduce(numpy", str(raised.exception))

    def test_a_rank_that_dies_is_named(self):
        def job(comm):
            if comm.rank == 1:
                os.kill(os.getpid(), signal.SIGKILL)
            comm.all_reduce(numpy.ones(1000))

        with self.assertRaises(rondo.Error) as raised:
            rondo.spark.run(job, RANKS)
        self.assertEqual(raised.exception.culprit, 1)
        self.assertEqual(raised.exception.code, "peer_dead")

    def test_a_failed_stage_is_tried_again_with_all_ranks(self):
        def job(comm, folder):
            begun = pathlib.Path(folder, f"rank {comm.rank}")
            attempt = len(begun.read_text()) if begun.exists() else 0
            begun.write_text("x" * (attempt + 1))
            if attempt == 0 and comm.rank == 1:
                os.kill(os.getpid(), signal.SIGKILL)
            return attempt, float(comm.all_reduce(numpy.ones(1))[0])

        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(rondo.spark.run(job, RANKS, args=(folder,)), [(1, RANKS)] * RANKS)

    def test_wrong_arguments_name_the_argument(self):
        for wrong, named in (({"num_proc": 0}, "num_proc"), ({"format": "csv"}, "format")):
            with self.assertRaisesRegex(rondo.ArgumentError, named):
                rondo.spark.run(lambda comm: None, **{"num_proc": 1, **wrong})

    def test_an_option_that_does_not_exist_fails_with_its_name(self):
        with self.assertRaisesRegex(Exception, "there is no option sppeed"):
            rondo.spark.run(lambda comm: None, RANKS, sppeed=1)


@unittest.skipIf(MISSING, f"no Spark: {MISSING}")
class Cluster(unittest.TestCase):
    """Two workers, each with executors of its own, in other processes than the driver."""

    def example(self, *words, master="local-cluster[2,1,1024]"):
        with tempfile.TemporaryDirectory() as folder:
            submit = pathlib.Path(pyspark.__file__).parent / "bin/spark-submit"
            command = [str(submit), "--master", master]
            for name, value in OPTIONS.items():
                command += ["--conf", f"{name}={value}"]
            command += ["--conf", f"spark.executorEnv.PYTHONPATH={os.environ['PYTHONPATH']}"]
            done = subprocess.run(
                [*command, *map(str, words)], capture_output=True, text=True, cwd=folder,
                timeout=DEADLINE, env={**os.environ, "PYSPARK_PYTHON": sys.executable,
                                  "PYSPARK_DRIVER_PYTHON": sys.executable})
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def test_logistic_regression(self):
        out = self.example(EXAMPLES / "spark_logistic_regression.py")
        self.assertGreater(float(out.split("accuracy ")[1].split(",")[0]), 0.8)

    def test_a_perceptron_continues_after_the_death_of_a_rank(self):
        out = self.example("--py-files", EXAMPLES / "numpy_mlp.py", EXAMPLES / "spark_mlp.py",
                           "--fail")
        self.assertIn("2 ranks, continued after step 100", out)
        self.assertGreater(float(out.split("accuracy ")[1].split(",")[0]), 0.8)

    # Proves: in both modes the processes of Spark's TorchDistributor meet over Rondo, and DDP
    # trains on them.
    @unittest.skipIf(NO_TORCH, f"no module {' and '.join(NO_TORCH)}")
    def test_torch_distributor(self):
        for master, words in (("local[2]", ["--local"]), ("local-cluster[2,1,1024]", [])):
            with self.subTest(master=master):
                out = self.example(EXAMPLES / "spark_torch.py", *words, master=master)
                found = ast.literal_eval(out[out.rindex("{"):out.rindex("}") + 1])
                self.assertEqual((found["backend"], found["ranks"], found["equal weights"]),
                                 ("rondo", 2, True))
                self.assertGreater(found["accuracy"], 0.9)


if __name__ == "__main__":
    unittest.main()
