"""Chores are repeated, and rest as long as the settings say now."""

import asyncio
import threading

from headrace.broker.operation.maintenance import Chore, Maintenance


def test_a_chore_rests_as_long_as_the_setting_says_each_time() -> None:
    ran = threading.Semaphore(0)
    rests = iter([1, 2, 3_600_000])
    asked: list[int] = []

    def rest_ms() -> int:
        asked.append(next(rests))
        return asked[-1]

    async def run() -> None:
        maintenance = Maintenance()
        maintenance.start([Chore("work", rest_ms, ran.release)])
        for _ in range(2):
            assert await asyncio.to_thread(ran.acquire, timeout=60)
        while len(asked) < 3:
            await asyncio.sleep(0)
        await maintenance.stop()

    asyncio.run(run())

    assert asked == [1, 2, 3_600_000]
