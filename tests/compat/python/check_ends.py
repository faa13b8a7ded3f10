"""Proves how calls in flight end with their program: if it fails, at once, on all ranks."""

import os
import textwrap
import unittest

from check_calls import program

# Rank 1 begins a call that rank 0 never makes, and ends. Rank 0 waits for rank 1 in another call,
# or is about to leave the all_reduce when it hears of the end. Without the end of both calls,
# both ranks wait for Rondo's timeout, which is longer than that of program().
MEETS = """
import os, sys
comm = rondo.init()
assert comm.transport_to(1 - comm.rank) == os.environ["RONDO_TRANSPORT"]
if comm.rank == 0:
    try:
        comm.all_reduce(np.ones(1))
        comm.recv(np.ones(1), 1)
    except rondo.Error as error:
        print(error.code, error.culprit, error, flush=True)
    sys.exit(0)
comm.all_reduce(np.ones(1))
"""
FLIES = "future = comm.recv_async(np.ones(100_000), 0)\n"


def two(text, transport="shm"):
    return program(text, ranks=2, env={**os.environ, "RONDO_TRANSPORT": transport})


class Failing(unittest.TestCase):
    def ends(self, text, status, cause, transport="shm"):
        """Rank 1 does MEETS and `text`, and ends with this status; rank 0 is told the cause."""
        output, ended = two(MEETS + textwrap.dedent(text), transport)
        self.assertEqual(ended, status, output)
        self.assertRegex(output, r"aborted 1 \w+ on rank 0 of 2: .*: rank 1 aborted with .* in "
                                 f"flight: its program raised {cause}\n")
        return output

    def test_exit_with_a_status(self):
        for transport in ("shm", "tcp"):
            with self.subTest(transport):
                self.ends(FLIES + "sys.exit(3)", 3, "SystemExit: 3", transport)

    def test_an_uncaught_exception(self):
        for transport in ("shm", "tcp"):
            with self.subTest(transport):
                output = self.ends(FLIES + "raise KeyError('no such row')", 1,
                                   "KeyError: 'no such row'", transport)
                self.assertIn("\nKeyError: 'no such row'\n", output)

    def test_exit_in_a_function_that_has_the_communicator(self):
        """Python drops the function's objects before it calls exit handlers."""
        self.ends("""
            def main(comm):
                future = comm.recv_async(np.ones(100_000), 0)
                sys.exit("no data")
            given = [comm]
            del comm
            main(given.pop())
            """, 1, "SystemExit: no data")

    def test_a_query_after_exit_does_not_take_it_back(self):
        self.ends(FLIES + textwrap.dedent("""
            try:
                sys.exit(3)
            finally:
                comm.failure()
            """), 3, "SystemExit: 3")

    def test_an_exception_that_leaves_the_block(self):
        self.ends(f"""
            with comm:
                {FLIES}
                raise SystemExit(3)
            """, 3, "SystemExit: 3")

    def test_an_exception_whose_text_utf_8_cannot_express(self):
        self.ends(FLIES + r"raise ValueError('\udcff')", 1, "ValueError")

    def test_an_exception_while_a_task_of_asyncio_waits(self):
        self.ends("""
            import asyncio

            async def main():
                waiting = asyncio.ensure_future(take())
                await asyncio.sleep(0.1)
                raise KeyError("no such row")

            async def take():
                return await comm.recv_async(np.ones(100_000), 0)
            asyncio.run(main())
            """, 1, "KeyError: 'no such row'")

    def test_arrays_live_until_their_calls_have_ended(self):
        """Large messages are under way into arrays of rank 1 that are dropped when it ends."""
        output, status = two("""
            import sys
            comm = rondo.init()
            if comm.rank == 1:
                for _ in range(4):
                    comm.recv_async(np.ones(4_000_000), 0)
                sys.exit(3)
            try:
                for _ in range(5):
                    comm.send(np.ones(4_000_000), 1)
            except rondo.Error as error:
                print(error.code, error.culprit)
            """)
        self.assertEqual(status, 3, output)
        self.assertRegex(output, "(aborted|peer_dead) 1\n")

    def test_without_calls_in_flight_it_leaves_in_order(self):
        for end, status in (("sys.exit(3)", 3), ("raise KeyError", 1)):
            with self.subTest(end):
                output, ended = two(MEETS.replace("recv(np.ones(1), 1)", "barrier()") + end)
                self.assertEqual(ended, status, output)
                self.assertIn("peer_dead 1 barrier on rank 0 of 2: rank 1 left without", output)


class Normal(unittest.TestCase):
    def test_calls_are_completed(self):
        """Rank 1 ends, or drops its communicator, before rank 0 makes the call."""
        caught = "try: sys.exit(2)\n    except SystemExit: "
        for end in ("sys.exit(0)", "sys.exit()", "pass", caught + "comm.send(np.ones(1), 0)",
                    caught + "pass\n    sys.exit(0)",
                    "sys.last_exc = sys.last_value = KeyError(1)\n    sys.exit(0)",
                    "next(x for _ in [1] for x in inside(comm))"):
            with self.subTest(end):
                output, status = two(f"""
import sys, time
def inside(comm):
    with comm:
        yield 1
comm = rondo.init()
comm.all_reduce(np.ones(1))
if comm.rank == 1:
    comm.all_reduce_async(np.ones(1_000_000))
    {end}
else:
    time.sleep(0.5)
    print(comm.all_reduce(np.ones(1_000_000))[-1])
    if "send" in {end!r}:
        print(comm.recv(np.zeros(1), 1))
""")
                self.assertEqual(status, 0, output)
                self.assertIn("2.0\n", output)


if __name__ == "__main__":
    unittest.main()
