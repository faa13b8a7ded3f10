"""Proves how calls in flight behave: futures, lifetimes, signals, failures, exit and fork."""

import asyncio
import gc
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
import unittest
import weakref
from unittest import mock

import numpy as np

import rondo

# Seconds, so many because other tests use the processors too. It is half of the time after which
# Rondo itself ends a call (RONDO_TIMEOUT in CMakeLists.txt).
DEADLINE = 300


def program(text, ranks=None, **options):
    """Runs a program, by `rondo run` if `ranks` is given; returns its output and exit status."""
    command = [sys.executable, "-c", "import numpy as np, rondo\n" + textwrap.dedent(text)]
    if ranks:
        command = [os.environ["COMMAND_OF_RONDO"], "run", "-p", str(ranks), "--", *command]
    ended = subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                           timeout=DEADLINE, check=False, **options)
    return ended.stdout, ended.returncode


class Futures(unittest.TestCase):
    def setUp(self):
        self.first, self.second = rondo.threads(2)

    def test_wait_and_result(self):
        a = np.ones(2)
        future = self.first.all_reduce_async(a)
        self.assertFalse(future.done())
        self.assertFalse(future.wait(0.01))
        with self.assertRaisesRegex(TimeoutError, "all_reduce on rank 0 of 2.* in flight"):
            future.result(timeout=0)
        with self.assertRaisesRegex(rondo.ArgumentError, "negative"):
            future.wait(-1)
        self.second.all_reduce(np.ones(2))
        self.assertTrue(future.wait(DEADLINE))
        self.assertTrue(future.done())
        self.assertIs(future.result(), a)
        self.assertEqual(a.tolist(), [2, 2])

    def test_arrays_live_as_long_as_the_call(self):
        a = np.ones(100_000)
        gone = weakref.ref(a)
        future = self.first.all_reduce_async(a)
        del a
        gc.collect()
        self.assertIsNotNone(gone())
        del future
        gc.collect()
        self.assertIsNotNone(gone())
        self.second.all_reduce(np.ones(100_000))
        self.assertEqual(gone()[0], 2)
        # The next asynchronous call drops what is done.
        futures = [comm.barrier_async() for comm in (self.first, self.second)]
        for future in futures:
            future.wait()
        gc.collect()
        self.assertIsNone(gone())

    def test_a_blocking_call_drops_arrays_too(self):
        a = np.ones(100)
        gone = weakref.ref(a)
        self.first.all_reduce_async(a)
        del a
        self.second.all_reduce(np.ones(100))
        alone, = rondo.threads(1)
        until = time.monotonic() + DEADLINE
        while gone() is not None and time.monotonic() < until:
            alone.barrier()
        self.assertIsNone(gone())

    def test_the_end_of_an_array_may_drop_futures(self):
        output, status = program("""
            first, second = rondo.threads(2)
            others = [rondo.threads(2) for _ in range(4)]

            class Array(np.ndarray):
                def __del__(self):
                    kept.clear()
            first.all_reduce_async(np.ones(3).view(Array))
            kept = [one.barrier_async() for one, _ in others for _ in range(50)]
            second.all_reduce(np.ones(3))
            while kept:
                rondo.threads(1)[0].barrier_async().wait()
            for _, one in others:
                for _ in range(50):
                    one.barrier()
            print("whole")
            """)
        self.assertEqual((output, status), ("whole\n", 0))

    def test_the_end_of_a_dtype_may_call(self):
        output, status = program("""
            alone, = rondo.threads(1)

            class End:
                def __init__(self, end):
                    self.end = end
                def __del__(self):
                    self.end()

            def reduce(**metadata):  # Rondo keeps the last dtype of each type
                alone.all_reduce(np.ones(3, np.dtype("f4", metadata=metadata)))
            reduce(it=End(lambda: reduce(it=End(lambda: print("whole")))))
            reduce()
            reduce()
            print("after")
            """)
        self.assertEqual((output, status), ("whole\nafter\n", 0))

    def test_memory_cannot_move(self):
        a = bytearray(8)
        future = self.first.broadcast_async(a, root=1)
        with self.assertRaises(BufferError):
            a.extend(b"more")
        self.second.broadcast(bytearray(b"12345678"), root=1)
        future.wait()
        self.assertEqual(a, b"12345678")
        a.extend(b"more")

    def test_asyncio(self):
        async def both():
            futures = [comm.all_gather_async(np.array([comm.rank]))
                       for comm in (self.first, self.second)]
            return [(await future).tolist() for future in futures]
        self.assertEqual(asyncio.run(both()), [[[0], [1]]] * 2)

    def test_other_threads_run_meanwhile(self):
        waiting = threading.Thread(target=self.first.barrier)
        waiting.start()
        steps = 0
        until = time.monotonic() + 0.1
        while time.monotonic() < until:
            steps += 1
        self.assertTrue(waiting.is_alive())
        self.assertGreater(steps, 1000)  # with the GIL held there would be none at all
        self.second.barrier()
        waiting.join(DEADLINE)
        self.assertFalse(waiting.is_alive())


class Failures(unittest.TestCase):
    def test_mismatch_is_an_error_on_both_ranks(self):
        first, second = rondo.threads(2)
        futures = [first.all_reduce_async(np.ones(2)), second.broadcast_async(np.ones(2))]
        for future in futures:
            with self.assertRaises(rondo.Error) as raised:
                future.wait()
            self.assertEqual(raised.exception.code, "mismatch")
        self.assertEqual(first.failure().code, "mismatch")

    def test_culprit_across_processes(self):
        output, status = program("""
            comm = rondo.init()
            comm.all_reduce(np.ones(3, np.float32))  # opens the connections
            if comm.rank == 1:
                comm.close()
            else:
                try:
                    comm.all_reduce(np.ones(3, np.float32))
                except rondo.Error as error:
                    print(error.code, error.culprit, error.call)
            """, ranks=2)
        self.assertEqual(
            (output, status),
            ("peer_dead 1 all_reduce on rank 0 of 2: 3 elements of float32, sum\n", 0))

    def test_run_raises_the_first_error(self):
        def job(comm):
            if comm.rank == 1:
                raise KeyError("no such row")
            comm.barrier()
        with self.assertRaisesRegex(KeyError, "no such row"):
            rondo.run(job, 3)

    def test_run_ends_all_jobs_whatever_the_text_of_the_error(self):
        class Unspeakable(Exception):
            def __str__(self):
                raise RuntimeError

        for error in (ValueError("\udcff"), Unspeakable()):
            def job(comm):
                if comm.rank == 1:
                    raise error
                comm.barrier()
            unhandled = []
            with self.subTest(type(error).__name__), self.assertRaises(type(error)), \
                    mock.patch("threading.excepthook", unhandled.append):
                rondo.run(job, 3, timeout=60)
            self.assertEqual(unhandled, [])

    def test_run_raises_the_error_of_a_job_that_has_closed_its_communicator(self):
        def job(comm):
            if comm.rank == 0:
                comm.close()
                raise KeyError("no such row")
            comm.barrier()
        unhandled = []
        with mock.patch("threading.excepthook", unhandled.append), \
                self.assertRaisesRegex(KeyError, "no such row"):
            rondo.run(job, 3)
        self.assertEqual(unhandled, [])

    def test_run_ends_calls_in_communicators_that_jobs_made(self):
        """Also in one that is made after the job of rank 1 has raised."""
        told = []

        def job(comm):
            part = comm.split(0)
            if comm.rank == 1:
                raise KeyError("no such row")
            for call in (part.barrier, lambda: comm.shrink([1]).barrier()):
                try:
                    told.append(call())
                except rondo.Error as error:
                    told.append(error.code)
                    self.assertIn("the job of rank 1 raised KeyError", str(error))
        with self.assertRaisesRegex(KeyError, "no such row"):
            rondo.run(job, 2, timeout=5)
        self.assertEqual(told, ["aborted", "aborted"])

    def test_run_ends_the_threads_that_began(self):
        began, ended = [], []

        def job(comm):
            try:
                comm.barrier()
            except rondo.Error as error:
                ended.append(error.code)

        class Thread(threading.Thread):
            def start(self):
                if began:
                    raise RuntimeError("can't start new thread")
                began.append(self)
                super().start()

        with mock.patch("threading.Thread", Thread), self.assertRaisesRegex(RuntimeError, "start"):
            rondo.run(job, 2)
        self.assertEqual(ended, ["aborted"])

    def test_timeout(self):
        first, _ = rondo.threads(2, timeout=0.2)
        with self.assertRaises(rondo.Error) as raised:
            first.barrier()
        self.assertEqual((raised.exception.code, raised.exception.culprit), ("timeout", 1))

    def test_two_processes_by_a_unique_id(self):
        output, status = program("""
            import subprocess, sys
            code = '''
            import sys, numpy as np, rondo
            comm = rondo.init(rank=1, size=2, unique_id=sys.stdin.buffer.read())
            comm.all_reduce(np.ones(1))'''.replace("            ", "")
            name = rondo.unique_id()
            other = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE)
            other.stdin.write(name)
            other.stdin.close()
            print(rondo.init(rank=0, size=2, unique_id=name).all_reduce(np.ones(1)))
            print(other.wait())
            """)
        self.assertEqual((output, status), ("[2.]\n0\n", 0))


class Signals(unittest.TestCase):
    WAITS = """
        import signal, sys, threading
        first, second = rondo.threads(2)
        print("ready", flush=True)
        try:
            CALL
        except KeyboardInterrupt:
            print("interrupted", flush=True)
        """

    def interrupted(self, call, then=""):
        text = "import numpy as np, rondo\n" + textwrap.dedent(self.WAITS).replace("CALL", call)
        with subprocess.Popen([sys.executable, "-c", text + textwrap.dedent(then)], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
            self.assertEqual(process.stdout.readline(), "ready\n")
            time.sleep(0.3)  # until it waits; if it does not yet, the test proves less
            process.send_signal(signal.SIGINT)
            output, _ = process.communicate(timeout=DEADLINE)
        return output, process.returncode

    def test_interrupt_ends_a_blocking_call_on_all_ranks(self):
        output, status = self.interrupted("first.barrier()", """
            try:
                second.barrier()
            except rondo.Error as error:
                print(error.code, error)
            """)
        self.assertEqual(status, 0)
        self.assertRegex(output, "^interrupted\naborted .*a signal ended barrier on rank 0 of 2\n$")

    def test_interrupt_ends_a_wait_and_not_the_call(self):
        output, status = self.interrupted("future = first.barrier_async(); future.wait()", """
            second.barrier()
            print(future.wait())
            """)
        self.assertEqual((output, status), ("interrupted\nTrue\n", 0))

    def test_interrupt_ends_run(self):
        output, status = self.interrupted("rondo.run(lambda comm: comm.rank or comm.barrier(), 2)")
        self.assertEqual((output, status), ("interrupted\n", 0))

    def test_interrupt_ends_run_after_a_job_has_closed_its_communicator(self):
        output, status = self.interrupted(
            "rondo.run(lambda comm: comm.rank and threading.Event().wait(2) or comm.close(), 2)")
        self.assertEqual((output, status), ("interrupted\n", 0))

    def test_interrupt_ends_init(self):
        output, status = self.interrupted(
            "rondo.init(rank=0, size=2, unique_id=rondo.unique_id())")
        self.assertEqual((output, status), ("interrupted\n", 0))

    def test_handlers_run_and_the_call_goes_on(self):
        output, status = program("""
            import os, signal, threading
            first, second = rondo.threads(2)
            noticed = threading.Event()
            signal.signal(signal.SIGUSR1, lambda *_: noticed.set())

            def later():
                os.kill(os.getpid(), signal.SIGUSR1)
                noticed.wait(30)
                second.all_reduce(np.ones(1))
            threading.Timer(0.2, later).start()
            print(first.all_reduce(np.ones(1)), noticed.is_set())
            """)
        self.assertEqual((output, status), ("[2.] True\n", 0))


    # The other rank is silent, but closes only later: this rank's close() waits for its call.
    def test_interrupt_ends_close(self):
        for call in ("first.close()", "first.__exit__(None, None, None)"):
            with self.subTest(call):
                output, status = self.interrupted(f"future = first.barrier_async(); {call}", """
                    print(first.closed, flush=True)
                    second.close()
                    """)
                self.assertEqual((output, status), ("interrupted\nTrue\n", 0))

    def test_interrupt_ends_split_and_shrink(self):
        for call in ("first.split(0)", "first.shrink([])", "first.shrink()"):
            with self.subTest(call):
                output, status = self.interrupted(call, """
                    import os
                    os._exit(0)
                    """)
                self.assertEqual((output, status), ("interrupted\n", 0))

    def test_interrupt_ends_exit(self):
        output, status = program("""
            import atexit, os, signal, time
            comm = rondo.init()
            process = comm.all_gather(np.array([os.getpid()]))[0, 0]
            if comm.rank == 0:
                future = comm.barrier_async()  # the other rank never calls it
                signal.signal(signal.SIGALRM, signal.default_int_handler)
                # Runs right before the rank is closed.
                atexit.register(signal.setitimer, signal.ITIMER_REAL, 0.3)
            else:
                while os.path.exists(f"/proc/{process}"):
                    time.sleep(0.05)
                os._exit(0)
            """, ranks=2)
        self.assertIn("KeyboardInterrupt", output)
        self.assertEqual(status, 0, output)


class Ends(unittest.TestCase):
    def test_exit_with_calls_in_flight(self):
        output, status = program("""
            first, second = rondo.threads(2)
            future = first.all_reduce_async(np.ones(1000))
            dropped = first.barrier_async()
            del dropped
            """)
        self.assertEqual((output, status), ("", 0))

    def test_exit_while_another_thread_waits(self):
        output, status = program("""
            import threading, time
            first, second = rondo.threads(2)
            threading.Thread(target=first.barrier, daemon=True).start()
            time.sleep(0.2)
            """)
        self.assertEqual(status, 0, output)

    def test_close_while_another_thread_waits(self):
        first, second = rondo.threads(2)
        waiting = threading.Thread(target=first.barrier)
        waiting.start()
        time.sleep(0.05)
        first.close()
        second.barrier()
        waiting.join(DEADLINE)
        self.assertFalse(waiting.is_alive())

    def test_the_last_call_of_a_closed_rank_waits_without_the_lock(self):
        first, second = rondo.threads(2, timeout=10)
        a = np.zeros(1)
        future = first.recv_async(a, 1)
        waiting = threading.Thread(target=first.barrier)
        waiting.start()
        time.sleep(0.1)  # until it waits; if it does not yet, the test proves less
        first.close()
        second.barrier()
        time.sleep(0.1)  # the thread destroys the communicator, which waits for the message
        second.send(np.ones(1), 0)
        self.assertTrue(future.wait())
        waiting.join(DEADLINE)
        self.assertEqual(a[0], 1)

    def test_close_leaves_the_group_although_futures_live(self):
        def close(comms):
            comms.pop().close()

        for end in (close, list.pop):  # without references it is closed too
            with self.subTest(end.__name__):
                first, *others = rondo.threads(2, timeout=20)
                futures = [others[0].all_reduce_async(np.ones(2)) for _ in range(3)]
                for _ in futures:
                    first.all_reduce(np.ones(2))
                futures[0].wait()  # of the others Rondo does not know yet that they are done
                end(others)
                with self.assertRaises(rondo.Error) as raised:
                    first.barrier()
                self.assertEqual((raised.exception.code, raised.exception.culprit),
                                 ("peer_dead", 1))
                for future in futures:
                    self.assertTrue(future.done())
                    self.assertEqual(future.result().tolist(), [2, 2])

    def test_close_ends_a_future_whose_call_the_other_rank_never_makes(self):
        first, second = rondo.threads(2, timeout=0.5)
        future = second.recv_async(np.ones(1), 0)
        second.close()
        for _ in range(2):
            self.assertTrue(future.done())
            with self.assertRaisesRegex(rondo.Error, "recv on rank 1 of 2.* closed the") as raised:
                future.result()
            self.assertEqual((raised.exception.code, raised.exception.culprit), ("timeout", 1))
        with self.assertRaises(rondo.Error) as raised:
            first.barrier()
        self.assertEqual(raised.exception.culprit, 1)

    def test_close_while_another_thread_waits_for_a_future(self):
        first, second = rondo.threads(2, timeout=20)
        a = np.ones(1)
        future = first.all_reduce_async(a)
        waiting = threading.Thread(target=future.wait)
        waiting.start()
        threading.Timer(0.2, second.all_reduce, (np.ones(1),)).start()
        first.close()
        self.assertEqual(a[0], 2)
        with self.assertRaises(rondo.Error) as raised:
            second.barrier()
        self.assertEqual(raised.exception.code, "peer_dead")
        waiting.join(DEADLINE)
        self.assertFalse(waiting.is_alive())
        self.assertIs(future.result(), a)

    def test_fork(self):
        output, status = program("""
            import multiprocessing, os
            comms = rondo.threads(2)
            child = os.fork()
            if child == 0:
                try:
                    comms[0].barrier()
                except rondo.ArgumentError as error:
                    print(error, flush=True)
                raise SystemExit(0)
            print(os.waitpid(child, 0)[1])
            worker = multiprocessing.get_context("fork").Process(target=len, args=("",))
            worker.start()
            worker.join()
            futures = [comm.barrier_async() for comm in comms]
            print([future.wait() for future in futures], worker.exitcode)
            """)
        lines = output.splitlines()
        self.assertRegex(lines[0], "barrier: this process is a fork")
        self.assertEqual((lines[1:], status), (["0", "[True, True] 0"], 0))

    def test_fork_with_a_future(self):
        output, status = program("""
            import gc, os
            first, second = rondo.threads(2)
            futures = [first.all_reduce_async(np.ones(1000)) for _ in range(3)]
            futures.pop()  # waits in the list of dropped ones
            child = os.fork()
            if child == 0:
                for call in (futures[0].done, futures[0].wait, futures[0].result,
                             first.barrier_async, first.barrier):
                    try:
                        call()
                    except rondo.ArgumentError as error:
                        print(error, flush=True)
                del futures, call
                gc.collect()
                print("dropped", flush=True)
                os._exit(0)
            print(os.waitpid(child, 0)[1])
            for _ in range(3):
                second.all_reduce(np.ones(1000))
            print([future.wait() for future in futures])
            """)
        lines = output.splitlines()
        self.assertEqual(len(lines), 8, output)
        for line in lines[:3]:
            self.assertRegex(line, "^all_reduce: this process is a fork")
        for line in lines[3:5]:
            self.assertRegex(line, "^barrier: this process is a fork")
        self.assertEqual((lines[5:], status), (["dropped", "0", "[True, True]"], 0))


if __name__ == "__main__":
    unittest.main()
