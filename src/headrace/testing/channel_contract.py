"""Tests that every channel must pass: derive from `ChannelContract` and provide `channel`."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from headrace.ingest.channel import Channel
from headrace.ingest.error import ChannelError, TransactionMisuse
from headrace.ingest.event import Event, EventBatch


def fill(channel: Channel, bodies: list[bytes]) -> None:
    """Put events into a channel, in one transaction."""
    with channel.begin() as transaction:
        transaction.put(EventBatch.plain(bodies))


def drain(channel: Channel, limit: int = 1_000_000) -> list[bytes]:
    """Take all events out of a channel, and return their bodies."""
    taken: list[bytes] = []
    while True:
        with channel.begin() as transaction:
            batch = transaction.take(min(limit, channel.transaction_capacity))
        if not len(batch):
            return taken
        taken += batch.bodies


class ChannelContract:
    """Tests of the transaction rules.

    To implement: a fixture `channel` that returns a started channel with a capacity of 100 events,
    a transactionCapacity of 10, and a keep-alive short enough for a test.
    """

    def test_committed_events_are_taken_with_headers_and_in_order(self, channel: Channel) -> None:
        events = [Event({"n": str(n), "ä": "ü"}, b"body \x00\xff %d" % n) for n in range(5)]
        with channel.begin() as transaction:
            transaction.put(EventBatch.of(events))
        with channel.begin() as transaction:
            taken = transaction.take(10)
        assert list(taken) == events

    def test_an_empty_body_and_no_headers_come_through(self, channel: Channel) -> None:
        fill(channel, [b""])
        with channel.begin() as transaction:
            assert list(transaction.take(1)) == [Event({}, b"")]

    def test_a_put_that_was_rolled_back_leaves_no_event(self, channel: Channel) -> None:
        transaction = channel.begin()
        transaction.put(EventBatch.plain([b"no"]))
        transaction.rollback()
        assert drain(channel) == []

    def test_a_take_that_was_rolled_back_is_repeated_first(self, channel: Channel) -> None:
        fill(channel, [b"%d" % n for n in range(6)])
        transaction = channel.begin()
        assert len(transaction.take(4)) == 4
        transaction.rollback()
        assert drain(channel) == [b"%d" % n for n in range(6)]

    def test_an_exception_in_the_block_rolls_back(self, channel: Channel) -> None:
        fill(channel, [b"kept"])
        with pytest.raises(ZeroDivisionError), channel.begin() as transaction:
            transaction.take(1)
            raise ZeroDivisionError
        assert drain(channel) == [b"kept"]

    def test_a_take_of_nothing_is_empty(self, channel: Channel) -> None:
        with channel.begin() as transaction:
            assert len(transaction.take(5)) == 0

    def test_taken_events_are_gone(self, channel: Channel) -> None:
        fill(channel, [b"once"])
        assert drain(channel) == [b"once"]
        assert drain(channel) == []
        assert channel.size == 0

    def test_several_takes_of_one_transaction_continue(self, channel: Channel) -> None:
        fill(channel, [b"1", b"2", b"3"])
        with channel.begin() as transaction:
            assert transaction.take(1).bodies == [b"1"]
            assert transaction.take(2).bodies == [b"2", b"3"]

    def test_more_than_a_transaction_may_have_is_refused(self, channel: Channel) -> None:
        with pytest.raises(ChannelError), channel.begin() as transaction:
            transaction.put(EventBatch.plain([b"x"] * (channel.transaction_capacity + 1)))
        assert drain(channel) == []

    def test_a_finished_transaction_refuses_every_call(self, channel: Channel) -> None:
        transaction = channel.begin()
        transaction.commit()
        with pytest.raises(TransactionMisuse):
            transaction.put(EventBatch.plain([b"late"]))
        with pytest.raises(TransactionMisuse):
            transaction.commit()

    def test_many_threads_lose_and_repeat_no_event(self, channel: Channel) -> None:
        def put(producer: int) -> None:
            for number in range(20):
                while True:
                    try:
                        fill(channel, [b"%d-%d" % (producer, number)] * 1)
                        break
                    except ChannelError:
                        continue

        def take(_: int) -> list[bytes]:
            got: list[bytes] = []
            empty = turns = 0
            while empty < 3:
                transaction = channel.begin()
                batch = transaction.take(3)
                empty = 0 if len(batch) else empty + 1
                turns += 1
                if len(batch) and turns % 4 == 0:
                    transaction.rollback()
                    continue
                got += batch.bodies
                transaction.commit()
            return got

        with ThreadPoolExecutor(5) as pool:
            puts = [pool.submit(put, producer) for producer in range(3)]
            takes = [pool.submit(take, taker) for taker in range(2)]
            for each in puts:
                each.result()
            got = [body for each in takes for body in each.result()]
        got += drain(channel)
        assert sorted(got) == sorted(b"%d-%d" % (p, n) for p in range(3) for n in range(20))

    def test_counters_follow(self, channel: Channel) -> None:
        fill(channel, [b"1", b"2"])
        drain(channel)
        assert channel.counters["EventPutSuccessCount"] == 2
        assert channel.counters["EventTakeSuccessCount"] == 2


class BoundedChannelContract(ChannelContract):
    """Further tests, for channels that refuse events above their capacity."""

    def test_a_full_channel_refuses_until_there_is_room(self, channel: Channel) -> None:
        for _ in range(10):
            fill(channel, [b"x"] * 10)
        with pytest.raises(ChannelError):
            fill(channel, [b"one too many"])
        with channel.begin() as transaction:
            transaction.take(1)
        fill(channel, [b"fits"])
        assert channel.size == 100

    def test_taken_events_count_until_the_commit(self, channel: Channel) -> None:
        for _ in range(10):
            fill(channel, [b"x"] * 10)
        transaction = channel.begin()
        transaction.take(5)
        with pytest.raises(ChannelError):
            fill(channel, [b"y"])
        transaction.rollback()
        assert len(drain(channel)) == 100
