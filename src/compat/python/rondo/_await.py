"""`await future`."""

import asyncio


async def result(future):
    """Waits on a thread of asyncio, for a second at a time: Python waits for that thread before it
    ends, also if the task was cancelled."""
    while not await asyncio.to_thread(future.wait, 1):
        pass
    return future.result()
