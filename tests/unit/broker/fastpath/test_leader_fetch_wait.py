"""How long a follower's fetch waits on the fast path, and what the fast path remembers."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headrace.broker.network.callback_future import CallbackFuture
from headrace.cluster.config_command import ConfigAlteration
from headrace.model.clock import ManualClock
from headrace.model.config_code import ConfigOperation
from headrace.wire.request import parse_request
from testkit.sample.fetching_follower import PARTITIONS, FetchingFollower, run, turns


class ManualLoop:
    """A broker's loop whose time stands still until it is set; the rest is the real one's."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.now = 100.0
        self.timers: list[tuple[float, Callable[[], object]]] = []
        self.cancelled = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loop, name)

    def time(self) -> float:
        return self.now

    def call_at(self, when: float, callback: Callable[[], object]) -> "ManualTimer":
        timer = ManualTimer(self, when, callback)
        self.timers.append((when, callback))
        return timer

    def fire(self) -> None:
        """Let the time of the only timer come."""
        [(self.now, callback)] = self.timers
        self.timers.clear()
        callback()


class ManualTimer:
    """What `ManualLoop.call_at` returns."""

    def __init__(self, loop: ManualLoop, when: float, callback: Callable[[], object]) -> None:
        self._loop = loop
        self._timer = when, callback

    def when(self) -> float:
        return self._timer[0]

    def cancel(self) -> None:
        self._loop.cancelled += 1
        self._loop.timers.remove(self._timer)


def manual_loop(follower: FetchingFollower) -> ManualLoop:
    loop = ManualLoop(follower.broker.loop)
    follower.broker.loop = loop  # type: ignore[assignment]
    return loop


def wait(follower: FetchingFollower, *, wait_ms: int = 500) -> CallbackFuture[Any]:
    """A fetch that finds nothing new, on the fast path."""
    answer = follower.fast_path.serve(follower.frame(wait_ms=wait_ms))
    assert isinstance(answer, CallbackFuture)
    assert not answer.done()
    return answer


def topics_changed(follower: FetchingFollower) -> None:
    follower.broker.topics.changed(next(iter(follower.broker.topics)))


def new_session(follower: FetchingFollower) -> None:
    follower.session_id = follower.session_epoch = 0
    follower.named = list(range(PARTITIONS))


# -- time


def test_a_fetch_waits_as_long_as_it_asks_for(tmp_path: Path) -> None:
    async def scenario(follower: FetchingFollower, _: ManualClock) -> None:
        follower.get_in_step()
        loop = manual_loop(follower)
        waiting = wait(follower)
        assert loop.timers[0][0] == 100.5

        loop.fire()

        assert waiting.done()
        follower.append_response(waiting)
        assert loop.timers == []

    run(tmp_path, scenario)


def test_one_timer_serves_the_fetches_that_wait_one_after_the_other(tmp_path: Path) -> None:
    async def scenario(follower: FetchingFollower, _: ManualClock) -> None:
        follower.get_in_step()
        loop = manual_loop(follower)
        first = wait(follower)
        loop.now = 100.25
        follower.append(0)
        await turns()
        follower.append_response(first)
        second = wait(follower)
        assert len(loop.timers) == 1

        loop.fire()  # that of the first, at 100.5
        assert not second.done()
        assert [when for when, _ in loop.timers] == [100.75]
        loop.fire()
        assert second.done()

    run(tmp_path, scenario)


def test_a_fetch_that_waits_less_than_the_one_before_is_not_late(tmp_path: Path) -> None:
    async def scenario(follower: FetchingFollower, _: ManualClock) -> None:
        follower.get_in_step()
        loop = manual_loop(follower)
        first = wait(follower)
        follower.append(0)
        await turns()
        follower.append_response(first)
        follower.append(0)
        follower.append_response(follower.ask_handler(follower.frame(wait_ms=10)))

        wait(follower, wait_ms=10)
        assert [when for when, _ in loop.timers] == [100.01]
        assert loop.cancelled == 1

    run(tmp_path, scenario)


def test_a_timer_that_finds_no_fetch_is_over_and_the_next_fetch_sets_another(
    tmp_path: Path,
) -> None:
    async def scenario(follower: FetchingFollower, _: ManualClock) -> None:
        follower.get_in_step()
        loop = manual_loop(follower)
        waiting = wait(follower)
        follower.append(0)
        await turns()
        follower.append_response(waiting)

        loop.now = 100.25
        waiting = wait(follower)
        follower.append(0)
        await turns()
        follower.append_response(waiting)

        loop.fire()
        assert loop.timers == []
        waiting = wait(follower)
        assert [when for when, _ in loop.timers] == [101.0]
        loop.fire()
        assert waiting.done()

    run(tmp_path, scenario)


def test_a_follower_that_is_gone_leaves_no_timer_and_may_come_back(tmp_path: Path) -> None:
    async def scenario(follower: FetchingFollower, _: ManualClock) -> None:
        follower.get_in_step()
        loop = manual_loop(follower)
        wait(follower).cancel()
        follower.session_epoch += 1

        follower.fast_path.close()
        follower.fast_path.close()
        assert (loop.cancelled, loop.timers) == (1, [])
        frame = follower.frame()
        assert follower.fast_path.serve(frame) is None

        follower.append(0)
        follower.append_response(follower.ask_handler(frame))
        waiting = wait(follower)
        assert len(loop.timers) == 1
        follower.append(1)
        await turns()
        assert waiting.done()

    run(tmp_path, scenario)


def test_a_follower_that_never_waited_goes_without_a_timer(tmp_path: Path) -> None:
    async def scenario(follower: FetchingFollower, _: ManualClock) -> None:
        follower.get_in_step()
        loop = manual_loop(follower)
        follower.fast_path.close()
        assert loop.cancelled == 0

    run(tmp_path, scenario)


# -- waking


def test_a_fetch_that_waits_is_woken_once_for_all_that_grows_in_one_event(tmp_path: Path) -> None:
    async def scenario(follower: FetchingFollower, _: ManualClock) -> None:
        follower.get_in_step()
        put_off: list[Callable[[], object]] = []
        follower.broker.call_after_event = put_off.append
        follower.append(0)  # nothing waits yet
        assert put_off == []
        follower.append_response(follower.fast_path.serve(follower.frame()))

        for _ in range(2):
            waiting = wait(follower)
            follower.append(0)
            follower.append(0)
            [look] = put_off
            put_off.clear()
            look()
            follower.append_response(waiting)
            assert follower.in_step()

    run(tmp_path, scenario)


def test_a_second_fetch_is_left_to_the_handler_while_one_waits(tmp_path: Path) -> None:
    async def scenario(follower: FetchingFollower, _: ManualClock) -> None:
        follower.get_in_step()
        waiting = wait(follower)
        assert follower.fast_path.serve(follower.frame()) is None
        follower.fast_path.finish()
        assert waiting.done()

    run(tmp_path, scenario)


def test_what_was_answered_before_its_wake_up_is_not_answered_again(tmp_path: Path) -> None:
    async def scenario(follower: FetchingFollower, _: ManualClock) -> None:
        follower.get_in_step()
        waiting = wait(follower)
        follower.append(0)
        follower.fast_path.finish()
        follower.append_response(waiting)
        await turns()  # `run` looks for what failed in them

        assert follower.in_step()
        follower.fast_path.finish()

    run(tmp_path, scenario)


def test_a_new_log_start_is_sent_at_once(tmp_path: Path) -> None:
    async def scenario(follower: FetchingFollower, _: ManualClock) -> None:
        follower.get_in_step()
        waiting = wait(follower)

        follower.partitions[0].announce_log_start()

        assert waiting.done()

    run(tmp_path, scenario)


@pytest.mark.parametrize("how", ["grows", "ends"])
def test_a_response_that_cannot_be_made_fails_the_fetch(tmp_path: Path, how: str) -> None:
    async def scenario(follower: FetchingFollower, _: ManualClock) -> None:
        follower.get_in_step()
        waiting = wait(follower)
        follower.slow_fetch_error = ValueError("it cannot be read")

        if how == "grows":
            follower.append(1)
            follower.append(2)  # several are due: none of them is sent from memory
            await turns()
        else:
            follower.fast_path.finish()

        assert waiting.exception() is follower.slow_fetch_error

    run(tmp_path, scenario)


# -- what is sent


def test_a_batch_still_in_memory_is_sent_without_a_read(tmp_path: Path) -> None:
    async def scenario(follower: FetchingFollower, _: ManualClock) -> None:
        follower.append(1)
        follower.append_response(follower.ask_handler(follower.frame(wait_ms=0)))
        follower.get_in_step()
        metrics = follower.broker.metrics
        requests, sent = metrics.requests["Fetch"], metrics.replication_sent_bytes
        waiting = wait(follower)
        assert metrics.requests["Fetch"] == requests + 1
        before = len(follower.copies[0])
        follower.append(0)
        await turns()
        follower.append_response(waiting)

        assert follower.slow_fetches == 0
        assert metrics.replication_sent_bytes == sent + len(follower.copies[0]) - before

        # Partition 0 is due until it is fetched from its end, which this fetch does.
        follower.append(1)
        follower.append_response(follower.fast_path.serve(follower.frame()))
        assert follower.slow_fetches == 0
        assert follower.in_step()

    run(tmp_path, scenario)


def test_a_batch_in_memory_is_not_sent_past_a_throttle(tmp_path: Path) -> None:
    async def scenario(follower: FetchingFollower, _: ManualClock) -> None:
        follower.get_in_step()
        waiting = wait(follower)
        key = "leader.replication.throttled.replicas"
        alterations = [ConfigAlteration(key, ConfigOperation.SET, "*")]
        await follower.broker.controller.administer(
            lambda controller: controller.alter_topic_configs("clicks", alterations)
        )
        follower.append(0)
        await turns()

        assert follower.slow_fetches == 1
        waiting.cancel()

    run(tmp_path, scenario)


def test_what_the_handlers_response_had_no_room_for_does_not_wait(tmp_path: Path) -> None:
    async def scenario(follower: FetchingFollower, _: ManualClock) -> None:
        follower.get_in_step()
        topics_changed(follower)
        follower.append(1)
        follower.append(2)
        follower.append_response(follower.ask_handler(follower.frame(max_bytes=1)))
        assert not follower.in_step()
        follower.named = [0]

        answer = follower.fast_path.serve(follower.frame(max_bytes=1))

        assert not isinstance(answer, CallbackFuture)
        assert follower.append_response(answer).topics[0].partitions[0].records

    run(tmp_path, scenario)


def test_a_follower_that_went_back_is_sent_what_it_has_lost(tmp_path: Path) -> None:
    async def scenario(follower: FetchingFollower, _: ManualClock) -> None:
        follower.get_in_step()
        waiting = wait(follower)
        follower.fast_path.finish()
        follower.append_response(waiting)
        follower.named, follower.ends[0], follower.copies[0] = [0], 0, b""

        follower.append_response(follower.fast_path.serve(follower.frame()))

        assert follower.in_step()

    run(tmp_path, scenario)


# -- what is learned


def test_a_fetch_that_wants_more_than_a_byte_is_not_learned(tmp_path: Path) -> None:
    async def scenario(follower: FetchingFollower, _: ManualClock) -> None:
        follower.append(0)
        follower.append_response(follower.ask_handler(follower.frame(wait_ms=0)))
        follower.append(0)
        follower.append_response(follower.ask_handler(follower.frame(min_bytes=2)))

        assert follower.fast_path.serve(follower.frame(min_bytes=2)) is None

    run(tmp_path, scenario)


def test_each_partition_is_watched_once_however_often_topics_change(tmp_path: Path) -> None:
    async def scenario(follower: FetchingFollower, _: ManualClock) -> None:
        for _ in range(3):
            follower.get_in_step()
            topics_changed(follower)
        watched = [
            sum(type(each).__name__ == "_SessionPartition" for each in one._replica_waiters)
            for one in follower.partitions
        ]
        assert watched == [1] * PARTITIONS

    run(tmp_path, scenario)


def test_after_a_change_of_topics_each_partition_is_learned_again(tmp_path: Path) -> None:
    async def scenario(follower: FetchingFollower, _: ManualClock) -> None:
        follower.get_in_step()
        topics_changed(follower)
        follower.named = [1]
        follower.append(1)
        follower.append_response(follower.ask_handler(follower.frame()))
        assert follower.in_step()

        follower.named = [0]
        assert follower.fast_path.serve(follower.frame()) is None
        follower.named = [1]
        assert follower.fast_path.serve(follower.frame()) is not None

    run(tmp_path, scenario)


def test_a_new_session_owes_nothing_of_the_old_one(tmp_path: Path) -> None:
    async def scenario(follower: FetchingFollower, _: ManualClock) -> None:
        follower.get_in_step()
        frame = follower.frame()
        follower.append(1)
        follower.append_response(follower.fast_path.serve(frame))
        assert follower.in_step()
        new_session(follower)
        follower.get_in_step()

        waiting = wait(follower)

        follower.append(0)
        await turns()
        [topic] = follower.append_response(waiting).topics
        assert [each.partition for each in topic.partitions] == [0]

    run(tmp_path, scenario)


def learn(follower: FetchingFollower, index: int) -> None:
    follower.named = [index]
    follower.append(index)
    follower.append_response(follower.ask_handler(follower.frame()))


def test_what_is_learned_of_one_partition_leaves_the_others_as_they_are(tmp_path: Path) -> None:
    async def scenario(follower: FetchingFollower, _: ManualClock) -> None:
        follower.get_in_step()
        for index in (0, 1, 2, 0):
            learn(follower, index)

        for index in range(PARTITIONS):
            follower.named = [index]
            answer = follower.fast_path.serve(follower.frame())
            assert answer is not None
            follower.fast_path.finish()
            follower.append_response(answer)

    run(tmp_path, scenario)


def test_a_partition_that_the_session_does_not_have_is_not_learned(tmp_path: Path) -> None:
    async def scenario(follower: FetchingFollower, _: ManualClock) -> None:
        follower.get_in_step()
        frame = follower.frame()
        request = parse_request(frame)
        session = follower.broker.fetch_sessions.find(follower.session_id)
        assert session is not None
        topics_changed(follower)
        session.partitions.clear()

        follower.fast_path.learn(frame, request)

        assert follower.fast_path.serve(frame) is None

    run(tmp_path, scenario)
