"""Ranks as threads of one process."""

import threading

from rondo._rondo import _threads_of_run


def _text(error):
    """The exception's class and text. str() is the program's own code, and Rondo's texts are UTF-8.
    """
    try:
        text = f"{type(error).__name__}: {error}"
    except Exception:
        text = type(error).__name__
    return text.encode(errors="replace").decode()


def run(job, ranks, **options):
    """Calls job(comm) on one thread for each of `ranks` ranks; returns the results in their order.

    If a job raises, the other ranks' calls end with an Error that says so, also calls in
    communicators that they made by comm.split(), shrink() and grow(). run() raises what the first
    one raised. Ctrl-C does the same. Options are those of init().

    >>> rondo.run(lambda comm: comm.rank * 10, ranks=3)
    [0, 10, 20]
    """
    comms = _threads_of_run(ranks, **options)
    results = [None] * ranks
    raised = []
    ended = threading.Semaphore(0)  # Thread.join() forgets the thread when Ctrl-C interrupts it

    def abort(reason):
        for comm in comms:  # with the communicators that jobs made of theirs
            comm._abort_family(reason)

    def work(comm):
        try:
            results[comm.rank] = job(comm)
        except BaseException as error:
            raised.append(error)
            abort(f"the job of rank {comm.rank} raised {_text(error)}")
        finally:
            ended.release()

    waiting = 0
    try:
        for comm in comms:
            threading.Thread(target=work, args=(comm,), name=f"rank {comm.rank}",
                             daemon=True).start()
            waiting += 1
        while waiting:
            ended.acquire()
            waiting -= 1
    except BaseException as error:
        abort(f"{type(error).__name__} in rondo.run()")
        for _ in range(waiting):
            ended.acquire()
        raise
    finally:
        for comm in comms:
            comm.close()
    if raised:
        raise raised[0]
    return results
