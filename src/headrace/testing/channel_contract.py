"""What every channel promises, as tests: derive from `ChannelContract` and give `channel`."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from headrace.ingest.channel import Channel
from headrace.ingest.error import ChannelError, TransactionMisuse
from headrace.ingest.event import Batch, Event


def fill(channel: Channel, bodies: list[bytes]) -> None:
    with channel.begin() as transaction:
        transaction.put(Batch.plain(bodies))


def drain(channel: Channel, limit: int = 1_000_000) -> list[bytes]:
    """Everything that is in a channel, taken and committed."""
    taken: list[bytes] = []
    while True:
        with channel.begin() as transaction:
            batch = transaction.take(min(limit, channel.transaction_capacity))
        if not len(batch):
            return taken
        taken += batch.bodies


class ChannelContract:
    """Tests of the transaction rules.

    To implement: a fixture `channel` that gives a started channel with a capacity of 100 events, a
    transactionCapacity of 10, and a keep-alive short enough for a test.
    """

    def test_what_was_committed_is_taken_with_headers_and_in_order(self, channel: Channel) -> None:
        events = [Event({"n": str(n), "ä": "ü"}, b"body \x00\xff %d" % n) for n in range(5)]
        with channel.begin() as transaction:
            transaction.put(Batch.of(events))
        with channel.begin() as transaction:
            taken = transaction.take(10)
        assert list(taken) == events

    def test_an_empty_body_and_no_headers_come_through(self, channel: Channel) -> None:
        fill(channel, [b""])
        with channel.begin() as transaction:
            assert list(transaction.take(1)) == [Event({}, b"")]

    def test_what_was_rolled_back_was_never_there(self, channel: Channel) -> None:
        transaction = channel.begin()
        transaction.put(Batch.plain([b"no"]))
        transaction.rollback()
        assert drain(channel) == []

    def test_a_take_that_was_rolled_back_comes_again_before_the_rest(
        self, channel: Channel
    ) -> None:
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

    def test_several_takes_of_one_transaction_go_on(self, channel: Channel) -> None:
        fill(channel, [b"1", b"2", b"3"])
        with channel.begin() as transaction:
            assert transaction.take(1).bodies == [b"1"]
            assert transaction.take(2).bodies == [b"2", b"3"]

    def test_more_than_a_transaction_may_have_is_refused(self, channel: Channel) -> None:
        with pytest.raises(ChannelError), channel.begin() as transaction:
            transaction.put(Batch.plain([b"x"] * (channel.transaction_capacity + 1)))
        assert drain(channel) == []

    def test_a_finished_transaction_takes_no_more(self, channel: Channel) -> None:
        transaction = channel.begin()
        transaction.commit()
        with pytest.raises(TransactionMisuse):
            transaction.put(Batch.plain([b"late"]))
        with pytest.raises(TransactionMisuse):
            transaction.commit()

    def test_many_threads_lose_and_double_nothing(self, channel: Channel) -> None:
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
    """In addition, for channels that refuse what is past their capacity."""

    def test_a_full_channel_refuses_until_there_is_room(self, channel: Channel) -> None:
        for _ in range(10):
            fill(channel, [b"x"] * 10)
        with pytest.raises(ChannelError):
            fill(channel, [b"one too many"])
        with channel.begin() as transaction:
            transaction.take(1)
        fill(channel, [b"fits"])
        assert channel.size == 100

    def test_events_in_a_taker_s_hands_still_take_room(self, channel: Channel) -> None:
        for _ in range(10):
            fill(channel, [b"x"] * 10)
        transaction = channel.begin()
        transaction.take(5)
        with pytest.raises(ChannelError):
            fill(channel, [b"y"])
        transaction.rollback()
        assert len(drain(channel)) == 100
