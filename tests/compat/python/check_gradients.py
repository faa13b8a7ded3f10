"""Proves that GradientReducer averages what Python computes, and refuses wrong use by name."""

import copy
import os
import pathlib
import subprocess
import sys
import unittest

import numpy

import rondo
from check_calls import DEADLINE

EXAMPLES = pathlib.Path(__file__).resolve().parents[3] / "src/compat/python/examples"


def parameters():
    return {"w": numpy.ones((3, 4), "f4"), "b": numpy.zeros(4, "f4"), "n": numpy.zeros(1)}


class Gradients(unittest.TestCase):
    def test_steps_average_or_sum_over_the_ranks(self):
        for average, overlap, buckets in ((True, True, [0]), (False, False, [1 << 20]),
                                          (True, False, [8, 64])):
            def job(comm):
                values = parameters()
                for value in values.values():
                    value += comm.rank
                reducer = rondo.GradientReducer(comm, values, average=average, overlap=overlap,
                                                bucket_bytes=buckets)
                seen = []
                for step in range(4):
                    reducer.begin()
                    for name in ("n", "b", "w"):
                        reducer.gradients[name][:] = 10 * step + comm.rank
                        reducer.ready(name)
                    reducer.wait()
                    seen.append({name: g.copy() for name, g in reducer.gradients.items()})
                return values, seen, reducer.statistics()

            for values, seen, statistics in rondo.run(job, ranks=3):
                for name, start in parameters().items():
                    numpy.testing.assert_array_equal(values[name], start)  # rank 0's
                    for step in range(4):
                        expected = (10 * step + 1) * (1 if average else 3)
                        numpy.testing.assert_array_equal(seen[step][name],
                                                         numpy.full_like(start, expected))
                self.assertEqual(statistics["steps"], 4)
                self.assertGreater(statistics["bytes"], 0)

    def test_gradients_of_a_list_go_by_number_and_accumulate(self):
        def job(comm):
            reducer = rondo.GradientReducer(comm, [numpy.zeros(5), numpy.zeros(2, "f4")])
            for synchronize in (False, True):
                reducer.begin(synchronize)
                for i in (1, 0):
                    reducer.gradients[i] += comm.rank + 1
                    reducer.ready(i)
                reducer.wait()
            return reducer.gradients

        for gradients in rondo.run(job, ranks=2):
            numpy.testing.assert_array_equal(gradients[0], numpy.full(5, 3.0))
            self.assertEqual(gradients[1].dtype, numpy.float32)

    # The reducer sends its own arrays: an array that the program put in their place would be lost.
    def test_assigned_gradients_are_copied(self):
        def job(comm, values):
            reducer = rondo.GradientReducer(comm, values)
            gradients = reducer.gradients
            reducer.begin()
            for key in (1, 0):
                gradients[key] = numpy.full(3, comm.rank + key)
                gradients[key] += 1
                reducer.ready(key)
            reducer.wait()
            with self.assertRaises(ValueError):
                gradients[0] = numpy.zeros(2)
            for change in (lambda: gradients.clear(), lambda: gradients.pop(0)):
                self.assertRaises(TypeError, change)
            if isinstance(values, dict):
                gradients.update({0: gradients[1] * 2})
                self.assertRaises(KeyError, lambda: gradients.update({5: numpy.zeros(3)}))
            else:
                gradients[0] = gradients[1] * 2
                self.assertRaises(TypeError, lambda: gradients.append(numpy.zeros(3)))
            return copy.deepcopy(gradients)

        for values in ([numpy.zeros(3), numpy.zeros(3)], {0: numpy.zeros(3), 1: numpy.zeros(3)}):
            for got in rondo.run(lambda comm: job(comm, copy.deepcopy(values)), ranks=2):
                self.assertIs(type(got), type(values))
                numpy.testing.assert_array_equal(got[1], numpy.full(3, 2.5))
                numpy.testing.assert_array_equal(got[0], numpy.full(3, 5.0))

    def test_hooks(self):
        def job(comm, hook):
            reducer = rondo.GradientReducer(comm, [numpy.zeros((8, 8), "f4")], hook=hook)
            reducer.begin()
            reducer.gradients[0][:] = comm.rank
            reducer.ready(0)
            reducer.wait()
            return reducer.gradients[0]

        for hook in ("none", "float16", "bfloat16", "topk:1", "powersgd:2"):
            for got in rondo.run(lambda comm: job(comm, hook), ranks=2):
                numpy.testing.assert_allclose(got, numpy.full((8, 8), 0.5), rtol=1e-6)
        for hook, told in (("fp8", "powersgd:RANK"), ("topk:x", "no valid value"),
                           ("topk:2", "density")):
            with self.assertRaisesRegex(rondo.Error, told):
                rondo.run(lambda comm: job(comm, hook), ranks=1)

    def test_ranks_with_different_models_learn_it(self):
        def job(comm):
            rondo.GradientReducer(comm, [numpy.zeros(3 + comm.rank)])

        with self.assertRaises(rondo.Error) as raised:
            rondo.run(job, ranks=2)
        self.assertEqual(raised.exception.code, "mismatch")

    def test_wrong_use_is_named(self):
        comm = rondo.threads(1)[0]
        read_only = numpy.zeros(2)
        read_only.flags.writeable = False
        for wrong in ([read_only], [numpy.zeros((4, 4)).T[:2]], {"x": "text"}):
            with self.assertRaises((rondo.ArgumentError, rondo.DTypeError)):
                rondo.GradientReducer(comm, wrong)
        with self.assertRaisesRegex(rondo.ArgumentError, "comm is not a rondo.Communicator"):
            rondo.GradientReducer({"x": numpy.zeros(2)}, comm)
        reducer = rondo.GradientReducer(comm, {"x": numpy.zeros(2)})
        for name in ("y", 0):
            with self.assertRaisesRegex(rondo.ArgumentError, "no parameter"):
                reducer.ready(name)

    def test_wrong_use_that_aborts_is_no_argument_error(self):
        """A rank that catches ArgumentError may go on; here it must not."""
        def step(comm, first):
            reducer = rondo.GradientReducer(comm, {"x": numpy.zeros(2)})
            comm.barrier()  # so that all are constructed before rank 1 aborts
            if comm.rank == 0:
                reducer.begin()
            else:
                first(reducer)
            reducer.ready("x")
            reducer.wait()

        def wrong_order(comm):
            step(comm, lambda reducer: None)

        def twice(comm):
            step(comm, lambda reducer: (reducer.begin(), reducer.begin()))

        def wrong_option(comm):
            rondo.GradientReducer(comm, [numpy.zeros(2)], bucket_bytes=[[1], []][comm.rank])

        for job, told in ((wrong_order, "\"x\" of rank 1 outside of a step"),
                          (twice, "begin: wait"), (wrong_option, "bucket_bytes")):
            with self.subTest(job.__name__):
                raised = {}

                def catching(comm):
                    try:
                        job(comm)
                    except rondo.Error as error:
                        raised[comm.rank] = error
                    self.assertEqual(comm.failure().code, "aborted")

                rondo.run(catching, ranks=2, timeout=20)
                self.assertEqual({rank: (type(error), error.code, error.culprit)
                                  for rank, error in raised.items()},
                                 {0: (rondo.Error, "aborted", 1),
                                  1: (rondo.Error, "invalid_argument", 1)})
                for error in raised.values():
                    self.assertRegex(str(error), told)
                self.assertRegex(str(raised[1]), "has aborted the communicator")

    def test_the_reducer_keeps_what_it_needs(self):
        def job(comm):
            reducer = rondo.GradientReducer(comm, [numpy.zeros(1000)])
            gradient = reducer.gradients[0]
            del comm
            reducer.begin()
            gradient[:] = 2
            reducer.ready(0)
            reducer.wait()
            del reducer
            return float(gradient.sum())

        self.assertEqual(rondo.run(job, ranks=2), [2000, 2000])

    def test_close_leaves_the_group_although_the_reducer_lives(self):
        kept = []

        def step(reducer, calls=("begin", "ready", "wait")):
            for name in calls:
                getattr(reducer, name)(*([0] if name == "ready" else []))

        for left, code, told in (((), "peer_dead", "rank 1"),
                                 (("begin", "ready"), "aborted", "step was left"),
                                 (("begin",), "aborted", "step was left")):
            def job(comm):
                reducer = rondo.GradientReducer(comm, [numpy.ones(3)])
                kept.append(reducer)
                reducer.gradients[0][:] = 4
                step(reducer)
                if comm.rank == 0:
                    with self.assertRaisesRegex(rondo.Error, told) as raised:
                        for _ in range(2):
                            step(reducer)
                    return raised.exception.code, raised.exception.culprit
                step(reducer, left)
                comm.close()
                for call in (reducer.begin, reducer.wait, lambda: reducer.ready(0)):
                    with self.assertRaisesRegex(rondo.ArgumentError, "is closed"):
                        call()
                self.assertEqual(reducer.statistics()["steps"], 1)
                return reducer.gradients[0].tolist()

            with self.subTest(left):
                self.assertEqual(rondo.run(job, ranks=2, timeout=20), [(code, 1), [4, 4, 4]])

    def test_the_example_learns(self):
        done = subprocess.run([os.environ["COMMAND_OF_RONDO"], "run", "-p", "2", "--",
                               sys.executable, EXAMPLES / "numpy_mlp.py"],
                              capture_output=True, text=True, timeout=DEADLINE)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertGreater(float(done.stdout.split("accuracy ")[1].split(",")[0]), 0.9)


class Planning(unittest.TestCase):
    def test_plans_of_all_ranks_match(self):
        for algorithm in ("ring", "tree", "butterfly", None):
            plan = rondo.plan("all_reduce", ranks=4, algorithm=algorithm)
            sent, received = [], []
            for rank in plan["ranks"]:
                for step in (step for lane in rank["lanes"] for step in lane):
                    sent += [channel for channel in step["sends"]]
                    received += [one for one in step["inputs"] if not isinstance(one[0], str)]
                    for source, _, _ in step["sends"]:
                        self.assertEqual(source, rank["rank"])
            self.assertEqual(sorted(sent), sorted(received))
            self.assertGreater(len(sent), 0)

    def test_predictions_are_simulations_and_name_the_choice(self):
        rows = rondo.predict("allreduce", ranks=8, bytes=1 << 20, layout="2x4")
        self.assertEqual([row["seconds"] for row in rows], sorted(row["seconds"] for row in rows))
        self.assertEqual(sum(row["chosen"] for row in rows), 1)
        one = rondo.simulate("allreduce", ranks=8, bytes=1 << 20, layout="2x4",
                             algorithm=rows[0]["algorithm"])
        self.assertEqual({**one, "chosen": rows[0]["chosen"]}, rows[0])

    def test_conditions_change_the_time(self):
        def seconds(**given):
            return rondo.simulate("allreduce", ranks=4, bytes=1 << 20, algorithm="ring",
                                  ideal=(1e-6, 1e9), **given)["seconds"]

        alone = seconds()
        self.assertGreater(seconds(late={2: 1.0}), alone + 0.9)
        self.assertGreater(seconds(slow_links={(0, 1): 10.0}), 2 * alone)
        dead = rondo.simulate("allreduce", ranks=4, bytes=8, algorithm="ring",
                              slow_links={(0, 1): float("inf")})
        self.assertIsNone(dead["seconds"])
        self.assertIn("0", dead["stuck"])
        steps = rondo.simulate("allreduce", ranks=4, bytes=8, algorithm="ring", trace=True)["steps"]
        self.assertEqual({step["rank"] for step in steps}, {0, 1, 2, 3})

    def test_wrong_questions_are_named(self):
        for call, given, told in ((rondo.plan, {"collective": "sort"}, "sort"),
                                  (rondo.plan, {"algorithm": "rign"}, "rign"),
                                  (rondo.predict, {"ranks": 0}, "ranks"),
                                  (rondo.predict, {"root": 4}, "root"),
                                  (rondo.simulate, {"link": "wire"}, "wire"),
                                  (rondo.simulate, {"late": {9: 1.0}}, "9"),
                                  (rondo.simulate, {"profile": "/no/such"}, "/no/such"),
                                  (rondo.simulate, {"layout": "2x4"}, "2x4")):
            given = {"collective": "allreduce", "ranks": 4, "bytes": 8, **given}
            with self.assertRaisesRegex(rondo.Error, told):
                call(**given)


if __name__ == "__main__":
    unittest.main()
