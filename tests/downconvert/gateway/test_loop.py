"""How a gateway's event loop ends. What it does until then: test_server.py."""

import asyncio

from .hanging import Hanging
from .serving import gateway
from .test_server import wait_for

STEPS = 5


def test_nothing_is_left_undone_when_it_ends() -> None:
    """What waits for a cluster that says nothing, and what takes several steps to end: asyncio's
    own connecting to several addresses does."""
    begun, ended = list[None](), list[None]()

    async def end_slowly() -> None:
        try:
            begun.append(None)
            await asyncio.Event().wait()
        finally:
            for _ in range(STEPS):
                await asyncio.sleep(0)
            ended.append(None)

    with Hanging() as silent, gateway(silent.port) as running:
        loop = running._loop._loop
        asyncio.run_coroutine_threadsafe(end_slowly(), loop)
        wait_for(lambda: silent.open > 0 and bool(begun))
        tasks = asyncio.all_tasks(loop)
    assert ended
    assert all(task.done() for task in tasks)
