"""How long replies of a group coordinator wait, and what they say then."""

import asyncio
from collections.abc import Callable

import pytest

from headrace.broker.coordinator.delayed_replies import DelayedReplies
from headrace.groups.effect import Delivery, GroupEffects
from headrace.groups.error import GroupError
from headrace.groups.request import GroupReply
from headrace.model.error import InvalidArgument


class ManualLoop:
    """A loop's clock and timers, moved by the test."""

    def __init__(self) -> None:
        self.now = 0.0
        self.timers: list[tuple[float, Callable[[], object]]] = []

    def time(self) -> float:
        return self.now

    def call_at(self, when: float, callback: Callable[[], object]) -> "ManualTimer":
        timer = (when, callback)
        self.timers.append(timer)
        return ManualTimer(self, timer)

    def advance(self, seconds: float) -> None:
        self.now += seconds
        for timer in [each for each in self.timers if each[0] <= self.now]:
            self.timers.remove(timer)
            timer[1]()


class ManualTimer:
    def __init__(self, loop: ManualLoop, timer: tuple[float, Callable[[], object]]) -> None:
        self._loop, self._timer = loop, timer

    def cancel(self) -> None:
        self._loop.timers.remove(self._timer)


class Wait:
    """A future whose callbacks run at once."""

    def __init__(self) -> None:
        self._callbacks: list[Callable[[Wait], object]] = []
        self._error: Exception | None = None

    def add_done_callback(self, callback: "Callable[[Wait], object]") -> None:
        self._callbacks.append(callback)

    def cancelled(self) -> bool:
        return False

    def exception(self) -> Exception | None:
        return self._error

    def end(self, error: Exception | None = None) -> None:
        self._error = error
        for each in self._callbacks:
            each(self)


class Shard:
    def __init__(self) -> None:
        self.loop = ManualLoop()
        self.waits: dict[int, Wait] = {}
        self.answers: list[tuple[object, GroupError | None]] = []
        self.failures = 0
        self.safe_offset = 0
        self.replies = DelayedReplies(
            self.loop,  # type: ignore[arg-type]
            5.0,
            self._when_safe,  # type: ignore[arg-type]
            lambda: self.safe_offset,
            self._release,
            self._failed,
        )

    def _when_safe(self, end: int) -> Wait:
        assert end not in self.waits, "one wait at a time"
        wait = self.waits[end] = Wait()
        return wait

    def _release(self, effects: GroupEffects) -> None:
        self.answers += [(each.token, each.reply.error) for each in effects.replies]

    def _failed(self) -> None:
        self.failures += 1

    def add(self, name: str, end: int) -> None:
        self.replies.add(end, GroupEffects(replies=[Delivery(name, GroupReply())]))

    def end(self, end: int, error: Exception | None = None) -> None:
        self.waits.pop(end).end(error)


@pytest.fixture
def shard() -> Shard:
    return Shard()


def test_a_reply_leaves_when_its_records_are_safe(shard: Shard) -> None:
    shard.add("a", 5)
    assert shard.answers == []
    shard.end(5)
    shard.add("b", 5)
    assert shard.answers == [("a", None), ("b", None)]
    assert shard.replies.safe_end == 5
    assert shard.waits == {}


def test_one_wait_serves_all_replies_up_to_its_end(shard: Shard) -> None:
    for name in "abc":
        shard.add(name, 5)
    shard.add("d", 9)
    shard.add("e", 7)
    assert list(shard.waits) == [5]

    shard.end(5)
    assert shard.answers == [(name, None) for name in "abc"]
    assert list(shard.waits) == [7]
    shard.end(7)
    shard.end(9)
    assert shard.answers[3:] == [("e", None), ("d", None)]


def test_a_reply_whose_time_is_over_asks_the_client_to_try_again(shard: Shard) -> None:
    shard.add("a", 5)
    shard.loop.advance(2)
    shard.add("b", 5)

    shard.loop.advance(3)
    assert shard.answers == [("a", GroupError.COORDINATOR_NOT_AVAILABLE)]
    shard.loop.advance(2)
    assert shard.answers[1:] == [("b", GroupError.COORDINATOR_NOT_AVAILABLE)]
    assert (len(shard.replies), shard.loop.timers) == (0, [])

    # The same wait goes on, for those that ask again.
    shard.add("a", 5)
    assert list(shard.waits) == [5]
    shard.end(5)
    assert shard.answers[2:] == [("a", None)]


def test_a_wait_that_fails_ends_the_shard_once(shard: Shard) -> None:
    shard.add("a", 5)
    shard.add("b", 9)

    shard.end(5, ValueError())

    assert shard.answers == [("a", GroupError.NOT_COORDINATOR), ("b", GroupError.NOT_COORDINATOR)]
    assert (shard.failures, shard.loop.timers, shard.waits) == (1, [], {})


def test_a_shard_that_is_given_up_answers_at_once_and_hears_no_wait_any_more(shard: Shard) -> None:
    shard.add("a", 5)
    shard.replies.close()
    assert shard.answers == [("a", GroupError.NOT_COORDINATOR)]
    assert shard.loop.timers == []

    shard.end(5, ValueError())

    assert (shard.failures, len(shard.answers)) == (0, 1)


def test_it_works_with_a_real_loop() -> None:
    async def main() -> list[GroupError | None]:
        loop = asyncio.get_running_loop()
        answered: asyncio.Future[GroupError | None] = loop.create_future()
        replies = DelayedReplies(
            loop,
            0.01,
            lambda end: loop.create_future(),
            lambda: 0,
            lambda effects: answered.set_result(effects.replies[0].reply.error),
            lambda: None,
        )
        replies.add(1, GroupEffects(replies=[Delivery("a", GroupReply())]))
        return [await answered]

    assert asyncio.run(main()) == [GroupError.COORDINATOR_NOT_AVAILABLE]


def test_what_one_wait_made_safe_beyond_its_end_needs_no_other(shard: Shard) -> None:
    for end in range(5, 105):
        shard.add(f"at {end}", end)
    shard.safe_offset = 104

    shard.end(5)

    assert len(shard.answers) == 100
    assert shard.waits == {}


def test_a_reply_to_a_shard_that_was_given_up_does_not_wait(shard: Shard) -> None:
    shard.replies.close()
    shard.add("a", 5)
    assert shard.answers == [("a", GroupError.NOT_COORDINATOR)]
    assert (shard.waits, shard.loop.timers) == ({}, [])


def test_a_broker_that_stops_answers_what_it_cannot_wait_for(
    shard: Shard, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(end: int) -> Wait:
        raise InvalidArgument("closed")

    monkeypatch.setattr(shard.replies, "_when_safe", refuse)
    shard.add("a", 5)
    assert shard.answers == [("a", GroupError.NOT_COORDINATOR)]
    assert shard.loop.timers == []
