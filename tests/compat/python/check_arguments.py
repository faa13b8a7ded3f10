"""Proves that wrong arguments are typed errors that name the problem, and break nothing."""

import functools
import pickle
import unittest

import numpy as np

import rondo


class Arguments(unittest.TestCase):
    """With the one rank of a group of two that calls: none of these calls may send anything."""

    @classmethod
    def setUpClass(cls):
        cls.comms = rondo.threads(2)
        cls.comm = cls.comms[0]

    def tearDown(self):
        """The group still works."""
        futures = [comm.all_reduce_async(np.ones(1)) for comm in self.comms]
        self.assertEqual([future.result()[0] for future in futures], [2, 2])

    def refused(self, words, call, *arguments, error=rondo.ArgumentError, **named):
        with self.assertRaisesRegex(error, words) as raised:
            call(*arguments, **named)
        return raised.exception

    def test_layout(self):
        square = np.zeros((3, 4))
        self.refused(r"all_reduce: a is not C-contiguous \(shape \(3, 2\)\)", self.comm.all_reduce,
                     square[:, :2])
        self.refused("not C-contiguous", self.comm.all_reduce, square.T)
        self.refused("out is not C-contiguous", self.comm.all_reduce, np.zeros(2),
                     out=np.zeros(4)[::2])
        self.refused("not C-contiguous", self.comm.all_reduce_async, square[::-1])

    def test_read_only(self):
        locked = np.zeros(2)
        locked.flags.writeable = False
        self.refused("a is read-only", self.comm.all_reduce, locked)
        self.refused("a is read-only", self.comm.broadcast, b"text", root=1)
        self.refused("out is read-only", self.comm.all_gather, np.zeros(1), out=locked)

    def test_types(self):
        types = {"foreign byte order": np.zeros(2, ">f4"), "dtype\\('O'\\)": np.zeros(2, object),
                 "bool.*view": np.zeros(2, bool), "complex.*view": np.zeros(2, complex),
                 "M8": np.zeros(2, "datetime64[s]"), "U1": np.zeros(2, "U1")}
        for words, a in types.items():
            with self.subTest(words):
                raised = self.refused(words, self.comm.all_reduce, a, error=rondo.DTypeError)
                self.assertIsInstance(raised, TypeError)
                self.assertEqual(raised.code, "unsupported")
        self.refused("float128|longdouble", self.comm.all_reduce, np.zeros(2, np.longdouble),
                     error=rondo.DTypeError)
        self.refused("'f0', '<i4'", self.comm.all_reduce, np.zeros(2, "i4,f4"),
                     error=rondo.DTypeError)

    def test_no_array(self):
        for what in (3, [1.0, 2.0], None, "text"):
            self.refused("a is no array .*neither the buffer protocol nor __dlpack__",
                         self.comm.all_reduce, what)

    def test_an_extension_of_a_wide_type_is_refused(self):
        """As pandas.Index: a dtype of NumPy and view(), without the buffer protocol."""
        class Index:
            def __init__(self, values):
                self.values, self.dtype = values, values.dtype

            def view(self, kind):
                return self.values.view(kind)

        for kind in (np.int64, np.float64, np.float32):
            self.refused("a is no array .*Index", self.comm.all_reduce, Index(np.zeros(4, kind)))

    def test_shapes(self):
        a = np.zeros(4)
        self.refused("out has 3 elements, but the call needs 4", self.comm.all_reduce, a,
                     out=np.zeros(3))
        self.refused("out has elements of type float32, but a has float64", self.comm.all_reduce,
                     a, out=np.zeros(4, np.float32))
        self.refused("out has 4 elements, but the call needs 8", self.comm.all_gather, a,
                     np.zeros(4))
        self.refused(r"3 elements, which 2 ranks cannot share evenly \(reduce_scatterv",
                     self.comm.reduce_scatter, np.zeros(3))
        self.refused("cannot share evenly", self.comm.all_to_all, np.zeros(3))
        self.refused("out has 3 elements, but the call needs 2", self.comm.scatter, a, np.zeros(3))

    def test_overlap(self):
        whole = np.zeros(6)
        self.refused("all_reduce on rank 0 of 2.*overlap", self.comm.all_reduce, whole[:4],
                     out=whole[2:])

    def test_blocks(self):
        a = np.zeros(4)
        self.refused("counts has 3 elements, but the call needs 2", self.comm.all_gatherv, a,
                     [4, 0, 0])
        self.refused("a has 4 elements, but the call needs 3", self.comm.all_gatherv, a, [3, 3])
        self.refused("block 1, 3 elements from element 2, ends after a, which has 4",
                     self.comm.reduce_scatterv, a, [2, 3])
        self.refused("block 1, 1 elements from element 18446744073709551615, ends after out",
                     self.comm.all_gatherv, a, [4, 1], np.zeros(8), offsets=[0, 2**64 - 1])
        self.refused("offsets need out", self.comm.all_gatherv, a, [4, 1], offsets=[0, 4])
        self.refused("root needs counts", self.comm.gatherv, a)
        with self.assertRaises(TypeError):
            self.comm.all_gatherv(a, [4, -1])

    def test_numbers(self):
        a = np.zeros(4)
        self.refused("root is 2, but the ranks are 0 to 1", self.comm.broadcast, a, root=2)
        self.refused("peer is -1", self.comm.send, a, -1)
        self.refused("sum, prod", self.comm.all_reduce, a, "plus")
        self.refused("neither a name", self.comm.all_reduce, a, 7)
        self.refused("threads: the number of ranks is 0", rondo.threads, 0)
        self.refused("rank and size belong together", rondo.init, rank=1)
        self.refused("unique_id has 3 bytes, not 128", rondo.init, rank=0, size=1, unique_id=b"abc")
        for name, function in (("init", rondo.init),
                               ("join", functools.partial(rondo.join, b"x" * 128)),
                               ("threads", functools.partial(rondo.threads, 2)),
                               ("run", functools.partial(rondo.run, None, 2))):
            self.refused(f"^{name}: there is no option colour.*algorithm", function, colour="red")
            self.refused(f"^{name}: option timeout has a value of a wrong type", function,
                         timeout="long")
            self.refused(f"^{name}: a duration is not", function, timeout=-1)
        self.refused("threads: RONDO_ALGO .*: unknown algorithm 'none'; valid: ", rondo.threads, 2,
                     algorithm="none")
        self.refused("no-such.csv", rondo.threads, 2, rules_file="no-such.csv",
                     error=rondo.Error)

    def test_operator_of_type(self):
        raised = self.refused("bor", self.comm.all_reduce, np.zeros(2), "bor")
        self.assertEqual(raised.call, "all_reduce on rank 0 of 2: 2 elements of float64, bor")

    def test_closed(self):
        comm, = rondo.threads(1)
        self.assertEqual(repr(comm), "<rondo.Communicator rank 0 of 1>")
        comm.close()
        comm.close()
        self.assertTrue(comm.closed)
        self.refused("the communicator is closed", comm.all_reduce, np.zeros(1))

    def test_errors_are_values(self):
        raised = self.refused("root is 9", self.comm.broadcast, np.zeros(1), root=9)
        self.assertIsInstance(raised, ValueError)
        copy = pickle.loads(pickle.dumps(raised))
        self.assertEqual((type(copy), str(copy), copy.code, copy.culprit, copy.call),
                         (rondo.ArgumentError, str(raised), "invalid_argument", None, "broadcast"))


if __name__ == "__main__":
    unittest.main()
