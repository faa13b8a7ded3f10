"""Runs ranks as forked processes. torch is imported once, and each test is a function of a rank."""

import contextlib
import datetime
import multiprocessing
import os
import signal
import tempfile
import time
import traceback

import torch
import torch.distributed as dist
import torch.distributed.tensor  # noqa: F401: assert_close() imports it, which takes seconds

CONTEXT = multiprocessing.get_context("fork")
PATIENCE = 180  # seconds until hanging ranks are killed


def join(rank, size, path, backend="rondo", timeout=60.0, **options):
    import rondo_torch  # noqa: F401: registers the backend
    torch.set_num_threads(1)
    dist.init_process_group(backend, store=dist.FileStore(path, size), rank=rank, world_size=size,
                            timeout=datetime.timedelta(seconds=timeout), **options)


def _main(pipe, rank, size, path, body, arguments, options):
    try:
        join(rank, size, path, **options)
        result = body(rank, size, *arguments)
        if dist.is_initialized():
            dist.destroy_process_group()
        pipe.send((None, result))
    except BaseException:
        pipe.send((traceback.format_exc(), None))


def ranks(size, body, *arguments, dying=(), **options):
    """Runs body(rank, size, *arguments) on each rank after init_process_group() with these options,
    and returns the ranks' results. Ranks in `dying` need not return. If ranks failed, raises an
    exception with their tracebacks."""
    with tempfile.TemporaryDirectory() as folder:
        pipes, processes = [], []
        for rank in range(size):
            ours, theirs = CONTEXT.Pipe()
            process = CONTEXT.Process(target=_main, args=(theirs, rank, size, folder + "/store",
                                                          body, arguments, options))
            process.start()
            theirs.close()
            pipes.append(ours)
            processes.append(process)
        results, wrong = [], []
        deadline = time.monotonic() + PATIENCE
        for rank, pipe in enumerate(pipes):
            error, result = "it ended or hung without a word", None
            with contextlib.suppress(EOFError):
                if pipe.poll(max(0, deadline - time.monotonic())):
                    error, result = pipe.recv()
            if error and rank not in dying:
                wrong.append(f"rank {rank} of {size}: {error}")
            results.append(result)
        for process in processes:
            process.join(10)
            if process.is_alive():
                process.kill()
                wrong.append("a rank did not end")
        if wrong:
            raise AssertionError("\n".join(wrong))
        return results


def die():
    os.kill(os.getpid(), signal.SIGKILL)


@contextlib.contextmanager
def raises(kind, *words):
    """The block must raise this kind of exception, with a text that contains all of the words."""
    try:
        yield
    except kind as error:
        missing = [word for word in words if word not in str(error)]
        assert not missing, f"{missing} not in: {error}"
        return
    raise AssertionError(f"no {kind.__name__}")


def same(actual, expected, tolerance=0.0):
    wide = torch.complex128 if actual.dtype.is_complex else torch.float64
    torch.testing.assert_close(actual.to(wide), expected.to(wide), rtol=tolerance, atol=tolerance)
