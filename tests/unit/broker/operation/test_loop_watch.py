"""The watch measures how late the loop is, and names what held it."""

import asyncio
import time

from structlog.testing import capture_logs

from headrace.broker.operation.loop_watch import LoopWatch


def hold_the_loop() -> None:
    time.sleep(0.3)


def watched(*, limit_ms: int, hold: bool) -> LoopWatch:
    async def main() -> LoopWatch:
        watch = LoopWatch(asyncio.get_running_loop(), limit_ms=limit_ms)
        watch.start()
        await asyncio.sleep(0.15)
        if hold:
            hold_the_loop()
        await asyncio.sleep(0.15)
        watch.stop()
        return watch

    return asyncio.run(main())


def test_the_lag_of_a_held_loop_is_measured() -> None:
    late = dict(watched(limit_ms=0, hold=True).lag.buckets())

    assert late["+Inf"] - late["0.1"] == 1


def test_what_holds_the_loop_is_named_once() -> None:
    with capture_logs() as lines:
        watched(limit_ms=50, hold=True)

    (line,) = [line for line in lines if "hold_the_loop" in line.get("stack", "")]
    assert line["event"] == "event_loop_held"
    assert line["at_least_ms"] >= 200
    assert line["stack"].endswith("hold_the_loop")


def test_without_a_limit_nothing_is_named() -> None:
    with capture_logs() as lines:
        watched(limit_ms=0, hold=True)

    assert lines == []
