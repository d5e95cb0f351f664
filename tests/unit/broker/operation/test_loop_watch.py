"""The watch measures how late the loop is, and names what held it."""

import asyncio
import time
from collections.abc import Callable, MutableMapping
from typing import Any

from structlog.testing import capture_logs

from headrace.broker.operation.loop_watch import LoopWatch


def hold_the_loop(seconds: float) -> None:
    time.sleep(seconds)


def watched(
    *, limit_ms: int, seconds: float = 0.3, seen: Callable[[], object] | None = None
) -> LoopWatch:
    """Return a watch that has seen the loop run, held, and run on until `seen`."""

    async def main() -> LoopWatch:
        watch = LoopWatch(asyncio.get_running_loop(), limit_ms=limit_ms)
        watch.start()
        async with asyncio.timeout(60):
            await a_beat(watch)
            hold_the_loop(seconds)
            await a_beat(watch)
            while seen is not None and not seen():
                await asyncio.sleep(0.01)
        watch.stop()
        return watch

    return asyncio.run(main())


async def a_beat(watch: LoopWatch) -> None:
    before = watch.lag.buckets()
    while watch.lag.buckets() == before:
        await asyncio.sleep(0.01)


def test_the_lag_of_a_held_loop_is_measured() -> None:
    late = dict(watched(limit_ms=0).lag.buckets())

    assert late["+Inf"] - late["0.1"] >= 1


def test_what_holds_the_loop_is_named_once() -> None:
    with capture_logs() as lines:

        def named() -> list[MutableMapping[str, Any]]:
            return [line for line in lines if "hold_the_loop" in line.get("stack", "")]

        # Long enough for a thread that looks while others have the cores.
        watched(limit_ms=50, seconds=2.0, seen=named)

    (line,) = named()
    assert line["event"] == "event_loop_held"
    assert line["at_least_ms"] >= 200
    assert line["stack"].endswith("hold_the_loop")


def test_without_a_limit_nothing_is_named() -> None:
    with capture_logs() as lines:
        watched(limit_ms=0)

    assert lines == []


def synced(on_the_loop: bool) -> tuple[int, list[MutableMapping[str, Any]]]:
    """Return how many syncs a watch has counted, and what it said, after one on some thread."""

    async def main() -> int:
        watch = LoopWatch(asyncio.get_running_loop())
        watch.start()
        if on_the_loop:
            watch.note_sync(0.002)
        else:
            await asyncio.to_thread(watch.note_sync, 0.002)
        watch.stop()
        return watch.syncs

    with capture_logs() as lines:
        return asyncio.run(main()), lines


def test_a_sync_on_the_loop_is_named() -> None:
    count, (line,) = synced(on_the_loop=True)

    assert count == 1
    assert line["event"] == "event_loop_synced"
    assert line["milliseconds"] == 2.0
    assert line["stack"].endswith("main")


def test_a_sync_in_another_thread_is_none_of_its_business() -> None:
    assert synced(on_the_loop=False) == (0, [])
