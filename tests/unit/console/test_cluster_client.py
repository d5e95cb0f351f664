"""Calls for several HTTP requests at once, with a cluster that none of them asks."""

from threading import Event

import anyio

from headrace.client.settings import ClientSettings
from headrace.console.cluster_client import MOST_AT_ONCE, ClusterClient


def test_calls_that_take_long_do_not_hold_up_the_others() -> None:
    client = ClusterClient(ClientSettings.of({}))
    done = Event()

    async def ask() -> None:
        async with anyio.create_task_group() as group:
            for _ in range(MOST_AT_ONCE):
                group.start_soon(client.run_long, lambda pool: done.wait(60))
            await anyio.wait_all_tasks_blocked()
            with anyio.fail_after(30):
                await client.run(lambda pool: done.set())

    anyio.run(ask)
    client.close()
