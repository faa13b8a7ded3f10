"""`await future`."""

import asyncio


async def result(future):
    """Waits on a thread of asyncio, for a second at a time. A wait without a limit would keep the
    thread after the task is cancelled, and asyncio.run() and the interpreter join that thread."""
    while not await asyncio.to_thread(future.wait, 1):
        pass
    return future.result()
