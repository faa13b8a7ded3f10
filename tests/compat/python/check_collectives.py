"""Proves that each collective gives what NumPy computes, for each type and kind of array."""

import array
import importlib.util
import threading
import unittest

import numpy as np

import rondo

TYPES = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16",
         "float32", "float64"]
try:
    import ml_dtypes
    EXTENSIONS = [ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2]
except ImportError:
    EXTENSIONS = []


class OnlyDlpack:
    """An array that has __dlpack__ and neither the buffer protocol nor a dtype."""

    def __init__(self, of):
        self.of = of

    def __dlpack__(self, **options):
        return self.of.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.of.__dlpack_device__()


def mine(comm, count, kind):
    """Small whole numbers, exact in every type."""
    return ((np.arange(count) + comm.rank) % 4).astype(kind)


def everyone(size, count, kind):
    return [((np.arange(count) + r) % 4).astype(kind) for r in range(size)]


class Collectives(unittest.TestCase):
    def each(self, check):
        for size in (1, 2, 3):
            for kind in TYPES + EXTENSIONS:
                with self.subTest(size=size, type=np.dtype(kind).name):
                    rondo.run(lambda comm: check(comm, kind), size)

    def same(self, got, want):
        self.assertEqual(got.dtype, want.dtype)
        self.assertEqual(got.tolist(), want.tolist())

    def test_all_reduce(self):
        def check(comm, kind):
            a = mine(comm, 7, kind)
            total = sum(np.float64(one) for one in everyone(comm.size, 7, kind)).astype(kind)
            out = np.empty(7, kind)
            self.assertIs(comm.all_reduce(a, out=out), out)
            self.same(out, total)
            self.same(a, mine(comm, 7, kind))
            self.assertIs(comm.all_reduce(a), a)
            self.same(a, total)
        self.each(check)

    def test_operators(self):
        def check(comm):
            def combined(op, kind=np.int64):
                return comm.all_reduce(np.array([comm.rank + 1, 5], kind), op).tolist()
            self.assertEqual(combined("prod"), [6, 125])
            self.assertEqual(combined("min"), [1, 5])
            self.assertEqual(combined("max"), [3, 5])
            self.assertEqual(combined("avg"), [2, 5])
            self.assertEqual(combined("band"), [0, 5])
            self.assertEqual(combined("bor"), [3, 5])
            self.assertEqual(combined("bxor"), [0, 5])
            self.assertEqual(combined(rondo.ReduceOp("max")), [3, 5])
            scaled = rondo.ReduceOp.scaled_sum(comm.rank / 2)
            self.assertEqual(combined(scaled, np.float32), [4, 7.5])
        rondo.run(check, 3)

    def test_scans(self):
        def check(comm, kind):
            parts = [np.float64(one) for one in everyone(comm.size, 5, kind)]
            a, out = mine(comm, 5, kind), np.zeros(5, kind)
            self.assertIs(comm.scan(a, "sum", out), out)
            self.same(out, sum(parts[:comm.rank + 1]).astype(kind))
            self.same(a, mine(comm, 5, kind))
            before = (np.max(parts[:comm.rank], axis=0).astype(kind) if comm.rank
                      else np.full(5, 3, kind))  # rank 0's result is not written
            out = np.full(5, 3, kind)
            self.assertIs(comm.exclusive_scan(a, "max", out), out)
            self.same(out, before)
            self.assertIs(comm.scan_async(a).result(), a)
            self.same(a, sum(parts[:comm.rank + 1]).astype(kind))
            a = mine(comm, 5, kind)
            self.assertIs(comm.exclusive_scan(a), a)
            self.same(a, sum(parts[:comm.rank]).astype(kind) if comm.rank
                      else mine(comm, 5, kind))
        self.each(check)

    def test_reduce(self):
        def check(comm, kind):
            root = comm.size - 1
            want = np.max(everyone(comm.size, 5, np.float64), axis=0).astype(kind)
            a, out = mine(comm, 5, kind), np.zeros(5, kind)
            got = comm.reduce(a, "max", root, out)
            self.same(a, mine(comm, 5, kind))
            self.assertIs(got, out if comm.rank == root else None)
            self.same(out, want if comm.rank == root else np.zeros(5, kind))
            comm.reduce(a, "max", root=root)
            self.same(a, want if comm.rank == root else mine(comm, 5, kind))
        self.each(check)

    def test_broadcast(self):
        def check(comm, kind):
            a = mine(comm, 6, kind).reshape(2, 3)
            if comm.rank == 0:
                a.flags.writeable = False
            self.assertIs(comm.broadcast(a), a)
            self.same(a, everyone(comm.size, 6, kind)[0].reshape(2, 3))
        self.each(check)

    def test_gathers(self):
        def check(comm, kind):
            want = np.stack(everyone(comm.size, 3, kind))
            self.same(comm.all_gather(mine(comm, 3, kind)), want)
            out = np.empty(3 * comm.size, kind)
            self.assertIs(comm.all_gather(mine(comm, 3, kind), out), out)
            self.same(out, want.reshape(-1))
            got = comm.gather(mine(comm, 3, kind), root=0)
            if comm.rank == 0:
                self.same(got, want)
            else:
                self.assertIsNone(got)
        self.each(check)

    def test_all_gather_in_place(self):
        def check(comm):
            out = np.full((comm.size, 2), -1)
            out[comm.rank] = comm.rank
            comm.all_gather(out[comm.rank], out)
            self.assertEqual(out.tolist(), [[0, 0], [1, 1], [2, 2]])
        rondo.run(check, 3)

    def test_scatters(self):
        def check(comm, kind):
            whole = np.concatenate(everyone(comm.size, 4, kind))
            a = whole if comm.rank == 0 else None
            part = comm.scatter(a, np.empty(4, kind))
            self.same(part, whole.reshape(comm.size, 4)[comm.rank])
            minimum = comm.reduce_scatter(whole + np.dtype(kind).type(0), "min")
            self.same(minimum, part)
        self.each(check)

    def test_all_to_all(self):
        def check(comm, kind):
            a = (np.arange(comm.size * 2) // 2 + 10 * comm.rank).astype(kind)
            want = (np.arange(comm.size * 2) // 2 * 10 + comm.rank).astype(kind)
            self.same(comm.all_to_all(a), want)
        self.each(check)

    def test_blocks(self):
        def check(comm):
            rank, size = comm.rank, comm.size
            counts = [2, 0, 1]
            packed = np.concatenate([np.full(c, r, np.int32) for r, c in enumerate(counts)])
            own = np.full(counts[rank], rank, np.int32)
            self.same(comm.all_gatherv(own, counts), packed)
            out = np.full(6, -1, np.int32)
            comm.all_gatherv(own, counts, out, offsets=[4, 0, 1])
            self.assertEqual(out.tolist(), [-1, 2, -1, -1, 0, 0])
            got = comm.gatherv(own, counts if rank == 1 else None, root=1)
            self.assertEqual(None if got is None else got.tolist(),
                             packed.tolist() if rank == 1 else None)
            part = np.empty(counts[rank], np.int32)
            comm.scatterv(packed if rank == 2 else None, counts if rank == 2 else None, part,
                          root=2)
            self.same(part, own)
            self.same(comm.reduce_scatterv(packed, counts, "sum"), own * np.int32(size))
            sent = np.repeat(np.arange(size, dtype=np.int32) + 10 * rank, rank + 1)
            got = comm.all_to_allv(sent, [rank + 1] * size, None, [1, 2, 3])
            self.assertEqual(got.tolist(), [rank, rank + 10, rank + 10] + [rank + 20] * 3)
        rondo.run(check, 3)

    def test_messages(self):
        def check(comm):
            right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
            sent = comm.send_async(np.full(1000, comm.rank, np.float32), right)
            got = comm.recv(np.empty(1000, np.float32), left)
            self.assertTrue(sent.wait())
            self.assertEqual(got.tolist(), [left] * 1000)
            comm.barrier()
            self.assertFalse(comm.arrived(left))
        rondo.run(check, 3)

    def test_no_elements(self):
        def check(comm, kind):
            none, size = np.empty(0, kind), comm.size
            for got in (comm.all_reduce(none), comm.scan(none), comm.exclusive_scan(none),
                        comm.broadcast(none), comm.reduce_scatter(none), comm.all_to_all(none),
                        comm.scatter(none, np.empty(0, kind)), comm.all_gatherv(none, [0] * size),
                        comm.reduce_scatterv(none, [0] * size),
                        comm.all_to_allv(none, [0] * size, None, [0] * size)):
                self.same(got, none)
            self.same(comm.all_gather(none), np.empty((size, 0), kind))
            self.assertIs(comm.reduce(none), none if comm.rank == 0 else None)
            gathered = comm.gather(none)
            self.assertEqual(None if gathered is None else gathered.shape,
                             (size, 0) if comm.rank == 0 else None)
            table = np.empty((3, 0), kind)
            self.assertIs(comm.all_reduce_async(table).result(), table)
            sent = comm.send_async(none, (comm.rank + 1) % size)
            self.same(comm.recv(np.empty(0, kind), (comm.rank - 1) % size), none)
            sent.wait()
            self.assertEqual(comm.all_reduce(np.ones(1))[0], size)
        self.each(check)

    def test_kinds_of_arrays(self):
        def check(comm):
            self.assertEqual(comm.all_reduce(array.array("d", [1, 2])).tolist(), [2, 4])
            self.assertEqual(comm.all_reduce(bytearray(b"\1\2")), b"\2\4")
            self.assertEqual(comm.all_reduce(memoryview(bytearray(4)).cast("i"))[0], 0)
            below = np.full((2, 2), 3, np.float32)
            comm.all_reduce(OnlyDlpack(below))
            self.assertEqual(below.tolist(), [[6, 6], [6, 6]])
            self.assertEqual(comm.all_reduce(np.empty(0)).size, 0)
            self.assertEqual(comm.all_reduce(np.array(2.5)), 5)
            self.assertEqual(comm.all_gather(array.array("i", [7])).tolist(), [[7], [7]])
            view = np.arange(6)[2:4]
            self.assertEqual(comm.all_reduce(view).base.tolist(), [0, 1, 4, 6, 4, 5])
        rondo.run(check, 2)

    def test_an_array_is_read_anew_at_each_call(self):
        def check(comm):
            a = np.ones(4, np.float32)
            self.assertEqual(comm.all_reduce(a).tolist(), [2] * 4)
            a.resize(100_000, refcheck=False)  # moves its memory
            a[:] = 1
            self.assertEqual(set(comm.all_reduce(a).tolist()), {2})
            a.dtype = np.int64
            a[:] = 2**40
            self.assertEqual(set(comm.all_reduce(a).tolist()), {2**41})
            a.dtype = np.dtype(np.int64).newbyteorder()
            with self.assertRaisesRegex(rondo.DTypeError, "foreign byte order"):
                comm.all_reduce(a)
            a.dtype = np.int64
            a.flags.writeable = False
            with self.assertRaisesRegex(rondo.ArgumentError, "a is read-only"):
                comm.all_reduce(a)
            self.assertEqual(comm.all_reduce(a, out=np.zeros(50_000, int))[0], 2**42)
        rondo.run(check, 2)

    @unittest.skipUnless(importlib.util.find_spec("torch"), "this Python has no torch")
    def test_torch(self):
        import torch

        def check(comm):
            for name in ("float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "int64"):
                a = torch.ones(5).to(getattr(torch, name))
                self.assertIs(comm.all_reduce(a), a)
                self.assertEqual(a.to(torch.float32).tolist(), [2] * 5, name)
        rondo.run(check, 2)

    def test_groups(self):
        def check(comm):
            half = comm.split(comm.rank % 2, key=-comm.rank)
            self.assertEqual(half.all_gather(np.array([comm.rank])).ravel().tolist(),
                             [2, 0] if comm.rank % 2 == 0 else [3, 1])
            self.assertIsNone(comm.split(None))
            if comm.rank == 3:
                return
            with comm.shrink([3]) as rest:
                self.assertEqual((rest.rank, rest.size), (comm.rank, 3))
                self.assertEqual(rest.all_reduce(np.ones(1)), 3)
        rondo.run(check, 4)

    def test_ranks_agree_whom_to_exclude(self):
        def check(comm):
            if comm.rank == 1:
                return comm.close()
            with comm.shrink() as rest:
                self.assertEqual((rest.rank, rest.size), (comm.rank // 2, 2))
                self.assertEqual(rest.all_reduce(np.ones(1)), 2)
        rondo.run(check, 3)

    def test_ranks_grow_by_a_newcomer(self):
        unique_id = rondo.unique_id()

        def joins():
            with rondo.join(unique_id) as comm:
                sums.append((comm.rank, float(comm.all_reduce(np.ones(1))[0])))
        sums = []
        newcomer = threading.Thread(target=joins)
        newcomer.start()

        def check(comm):
            with comm.grow(1, unique_id if comm.rank == 1 else None) as grown:
                self.assertEqual((grown.rank, grown.size), (comm.rank, 3))
                self.assertEqual(grown.all_reduce(np.ones(1)), 3)
        rondo.run(check, 2)
        newcomer.join()
        self.assertEqual(sums, [(2, 3.0)])


if __name__ == "__main__":
    unittest.main()
