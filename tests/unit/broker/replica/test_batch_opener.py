"""How much may wait to be opened."""

import asyncio
from collections.abc import Awaitable, Callable
from threading import Event

import pytest

from headrace.broker.replica.batch_opener import BatchOpener, OpensLater
from headrace.model.error import NotEnoughReplicas, RequestTimedOut, TakesLong
from headrace.model.ids import TopicPartition
from headrace.records.batch import Batch

ORDERS = TopicPartition("orders", 0)
PRODUCER = 7
MAX_BYTES = 10_000_000
MB = 1_000_000


class Opening:
    """An opener whose threads are busy until `go`."""

    def __init__(self) -> None:
        self.opener = BatchOpener(asyncio.get_running_loop(), MAX_BYTES)
        self.go = Event()
        self.opened = 0

    def admit(self, _: bool) -> list[Batch]:
        self.go.wait(90)
        self.opened += 1
        return []

    def open(self, batch: memoryview) -> "asyncio.Future[int]":
        return self.opener.open(ORDERS, batch, self.admit, lambda admitted: len(admitted()))


def run(scenario: Callable[[Opening], Awaitable[None]]) -> None:
    async def bounded() -> None:
        opening = Opening()
        async with asyncio.timeout(60):
            await scenario(opening)
        opening.go.set()
        opening.opener.close()

    asyncio.run(bounded())


def test_past_the_limit_a_batch_is_refused_until_others_are_opened() -> None:
    async def scenario(opening: Opening) -> None:
        waiting = [opening.open(memoryview(bytes(3 * MB))) for _ in range(3)]
        with pytest.raises(RequestTimedOut):
            opening.open(memoryview(bytes(3 * MB)))

        opening.go.set()
        await asyncio.gather(*waiting)

        assert await opening.open(memoryview(bytes(3 * MB))) == 0

    run(scenario)


def test_a_batch_counts_with_its_request_and_the_request_once() -> None:
    async def scenario(opening: Opening) -> None:
        request = memoryview(bytes(6 * MB))
        waiting = [opening.open(request[at : at + 100]) for at in range(0, 2000, 100)]

        with pytest.raises(RequestTimedOut):
            opening.open(memoryview(bytes(6 * MB))[:100])

        opening.go.set()
        await asyncio.gather(*waiting)

    run(scenario)


def test_a_batch_alone_may_be_of_any_size() -> None:
    async def scenario(opening: Opening) -> None:
        opening.go.set()
        assert await opening.open(memoryview(bytes(2 * MAX_BYTES))) == 0

    run(scenario)


def test_many_tiny_batches_are_bounded_too() -> None:
    async def scenario(opening: Opening) -> None:
        with pytest.raises(RequestTimedOut):
            for _ in range(MAX_BYTES // 1000):
                opening.open(memoryview(b"x"))

    run(scenario)


def test_an_opener_that_closes_opens_nothing_more() -> None:
    async def scenario(opening: Opening) -> None:
        waiting = [opening.open(memoryview(bytes(10))) for _ in range(20)]
        closing = asyncio.create_task(asyncio.to_thread(opening.opener.close))
        with pytest.raises(RuntimeError, match="after shutdown"):
            while True:
                waiting.append(opening.open(memoryview(bytes(10))))
                await asyncio.sleep(0)
        opening.go.set()
        await closing
        await asyncio.gather(*waiting, return_exceptions=True)

        assert opening.opened <= 2

    run(scenario)


def test_what_was_opened_behind_a_slow_batch_is_bounded() -> None:
    """Opened, a batch may be a thousand times larger than what its limit counts."""

    async def scenario(opening: Opening) -> None:
        opened: list[int] = []
        order: list[int] = []

        def admit(number: int) -> list[Batch]:
            if number == 0:
                opening.go.wait(90)
            opened.append(number)
            return []

        def open_(partition: TopicPartition, number: int) -> "asyncio.Future[None]":
            return opening.opener.open(
                partition,
                memoryview(bytes(10)),
                lambda _: admit(number),
                lambda _: order.append(number),
            )

        waiting = [open_(ORDERS, number) for number in range(20)]
        # The other thread is free for other partitions all the while.
        for _ in range(20):
            await open_(TopicPartition("other", 0), 100)

        assert [number for number in opened if number < 100] == [1]
        opening.go.set()
        await asyncio.gather(*waiting)
        assert [number for number in order if number < 100] == list(range(20))

    run(scenario)


class Bombs:
    """Batches that are given up at first, and then take until `go`."""

    def __init__(self, opening: Opening) -> None:
        self.opening = opening
        self.order: list[int] = []

    def admit(self, patient: bool) -> list[Batch]:
        if not patient:
            raise TakesLong("a hundred megabytes")
        return self.opening.admit(patient)

    def open(self, partition: TopicPartition, number: int) -> "asyncio.Future[None]":
        def append(admitted: Callable[[], list[Batch]]) -> None:
            admitted()
            self.order.append(number)

        return self.opening.opener.open(partition, memoryview(b"bomb"), self.admit, append)

    def open_other(self, partition: TopicPartition, number: int) -> "asyncio.Future[None]":
        return self.opening.opener.open(
            partition, memoryview(b"other"), lambda _: [], lambda _: self.order.append(number)
        )


def test_batches_that_take_long_hold_no_other_partition() -> None:
    async def scenario(opening: Opening) -> None:
        bombs = Bombs(opening)
        waiting = [bombs.open(TopicPartition("bombs", each), each) for each in range(10)]

        for number in range(100, 120):
            await bombs.open_other(ORDERS, number)

        assert bombs.order == list(range(100, 120))
        opening.go.set()
        await asyncio.gather(*waiting)
        assert bombs.order[20:] == list(range(10))

    run(scenario)


def test_a_batch_that_takes_long_keeps_its_place_in_its_partition() -> None:
    async def scenario(opening: Opening) -> None:
        bombs = Bombs(opening)
        waiting = [
            (bombs.open_other if number % 3 else bombs.open)(ORDERS, number) for number in range(12)
        ]
        await bombs.open_other(TopicPartition("other", 0), 100)
        assert bombs.order == [100]

        opening.go.set()
        await asyncio.gather(*waiting)

        assert bombs.order[1:] == list(range(12))

    run(scenario)


def test_what_takes_long_waits_in_a_bounded_line() -> None:
    async def scenario(opening: Opening) -> None:
        bombs = Bombs(opening)
        waiting = [bombs.open(TopicPartition("bombs", each), each) for each in range(70)]
        refused, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        opening.go.set()
        done = await asyncio.gather(*waiting, return_exceptions=True)

        assert isinstance(next(iter(refused)).exception(), RequestTimedOut)
        assert sum(isinstance(each, RequestTimedOut) for each in done) >= 1
        assert opening.opened >= 32
        # The line is free again.
        assert await bombs.open(ORDERS, 100) is None

    run(scenario)


def test_one_that_takes_long_is_not_opened_after_the_end() -> None:
    async def scenario(opening: Opening) -> None:
        bombs = Bombs(opening)
        waiting = [bombs.open(TopicPartition("bombs", each), each) for each in range(10)]
        # Until all of them wait for the one thread: later batches than theirs are opened.
        await bombs.open_other(ORDERS, 100)
        closing = asyncio.create_task(asyncio.to_thread(opening.opener.close))
        await asyncio.wait(waiting[1:])
        opening.go.set()
        await closing
        await asyncio.gather(*waiting, return_exceptions=True)

        assert opening.opened <= 1

    run(scenario)


class Questions:
    """Batches of `ORDERS`; those that are asked about wait until `answered`."""

    def __init__(self, opener: BatchOpener) -> None:
        self.opener = opener
        self.waits = asyncio.Event()
        self.answered = asyncio.Event()
        self.order: list[int] = []

    async def _ready(self) -> None:
        self.waits.set()
        await self.answered.wait()

    def open(
        self, number: int, *, producer: int | None = None, asks: bool = False
    ) -> "asyncio.Future[int]":
        known = not asks

        def admit(_: bool) -> list[Batch]:
            nonlocal known
            if not known:
                known = True
                raise OpensLater(self._ready)
            return []

        def append(admitted: Callable[[], list[Batch]]) -> int:
            try:
                admitted()
            except (RequestTimedOut, NotEnoughReplicas):
                return -1
            self.order.append(number)
            return number

        return self.opener.open(
            ORDERS, memoryview(b"batch"), admit, append, transaction_of=producer
        )


def test_a_batch_that_does_not_wait_is_refused_where_another_waits() -> None:
    async def scenario(opening: Opening) -> None:
        questions = Questions(opening.opener)
        first = questions.open(0, asks=True)
        await questions.waits.wait()

        with pytest.raises(RequestTimedOut, match="waits for the schema registry"):
            questions.open(1, producer=PRODUCER)

        behind = questions.open(2)
        questions.answered.set()
        assert await asyncio.gather(first, behind) == [0, 2]
        assert await questions.open(3, producer=PRODUCER) == 3
        assert questions.order == [0, 2, 3]

    run(scenario)


def test_what_was_queued_before_the_other_waits_is_refused_and_the_rest_keep_their_places() -> None:
    async def scenario(opening: Opening) -> None:
        questions = Questions(opening.opener)
        slow = opening.open(memoryview(b"slow"))
        asking = questions.open(0, asks=True)
        queued = [questions.open(number, producer=PRODUCER) for number in (1, 2, 3)]
        behind = [questions.open(number) for number in (4, 5)]
        opening.go.set()

        assert await asyncio.gather(slow, *queued) == [0, -1, -1, -1]

        assert questions.order == []
        questions.answered.set()
        assert await asyncio.gather(asking, *behind) == [0, 4, 5]
        assert questions.order == [0, 4, 5]

    run(scenario)


def test_what_goes_wrong_with_a_batch_that_does_not_wait_is_raised() -> None:
    async def scenario(opening: Opening) -> None:
        def append(_: object) -> None:
            raise OSError("the disk is full")

        opened = opening.opener.open(
            ORDERS, memoryview(b"batch"), lambda _: [], append, transaction_of=PRODUCER
        )
        with pytest.raises(OSError, match="full"):
            await opened

    run(scenario)


def test_a_marker_refuses_the_batches_of_its_producer_that_it_has_overtaken() -> None:
    async def scenario(opening: Opening) -> None:
        questions = Questions(opening.opener)
        slow = opening.open(memoryview(b"slow"))
        overtaken = [questions.open(number, producer=PRODUCER) for number in (1, 2)]
        others = [questions.open(3, producer=PRODUCER + 1), questions.open(4)]

        opening.opener.transaction_ended(TopicPartition("orders", 1), PRODUCER)
        assert not any(each.done() for each in overtaken)
        opening.opener.transaction_ended(ORDERS, PRODUCER)

        assert [each.result() for each in overtaken] == [-1, -1], "before anything else happens"
        following = questions.open(5, producer=PRODUCER)
        opening.go.set()
        assert await asyncio.gather(slow, *others, following) == [0, 3, 4, 5]
        assert questions.order == [3, 4, 5]

    run(scenario)


def test_a_marker_does_not_mind_a_batch_that_was_given_up() -> None:
    async def scenario(opening: Opening) -> None:
        questions = Questions(opening.opener)
        slow = opening.open(memoryview(b"slow"))
        given_up = questions.open(1, producer=PRODUCER)
        overtaken = questions.open(2, producer=PRODUCER)
        given_up.cancel()

        opening.opener.transaction_ended(ORDERS, PRODUCER)

        assert overtaken.result() == -1
        opening.go.set()
        assert await slow == 0
        assert await questions.open(3, producer=PRODUCER) == 3
        assert questions.order == [3]

    run(scenario)


def test_a_marker_that_comes_later_refuses_nothing() -> None:
    async def scenario(opening: Opening) -> None:
        questions = Questions(opening.opener)
        assert await questions.open(1, producer=PRODUCER) == 1

        opening.opener.transaction_ended(ORDERS, PRODUCER)

        assert await questions.open(2, producer=PRODUCER) == 2
        assert questions.order == [1, 2]

    run(scenario)
