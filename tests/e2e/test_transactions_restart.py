"""Transactions over a broker that stops, or is killed, in the middle of them."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from threading import Event, Thread

import pytest
from confluent_kafka import KafkaException, Producer

from headrace.testing.quick_settings import QUICK_SETTINGS
from headrace.testing.readiness import wait_until
from testkit.peer.transactional import (
    read_to_end,
    transact,
    transactional_producer,
    write,
)
from testkit.process.broker_process import BrokerProcess
from testkit.process.member import create_topic

PARTITIONS = (0, 1)


@dataclass
class Restarted:
    """A broker that went away while these producers had a record each in an open transaction."""

    address: str
    resumed: Producer
    abandoned: Producer
    replaced: Producer


@pytest.fixture(scope="module", params=["stopped", "killed"])
def restarted(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Restarted]:
    """The topic of each producer, and its transactional id, is its name here."""
    broker = BrokerProcess(tmp_path_factory.mktemp("restarted"))
    broker.start()

    def began(name: str, timeout_ms: int) -> Producer:
        create_topic(broker.address, name, 1)
        transact(transactional_producer(broker.address, name), name, b"before")
        producer = transactional_producer(broker.address, name, transaction_timeout_ms=timeout_ms)
        producer.begin_transaction()
        write(producer, name, b"open")
        return producer

    producers = [began("resumed", 600_000), began("abandoned", 3000), began("replaced", 600_000)]
    if request.param == "killed":
        broker.kill()
    else:
        assert broker.stop() == 0
    broker.start()
    yield Restarted(broker.address, *producers)
    broker.kill()


def test_an_open_transaction_goes_on_after_a_restart(restarted: Restarted) -> None:
    assert read_to_end(restarted.address, "resumed") == [b"before"]

    write(restarted.resumed, "resumed", b"more")
    restarted.resumed.commit_transaction(90)

    assert read_to_end(restarted.address, "resumed") == [b"before", b"open", b"more"]


def test_a_transaction_nobody_ends_is_aborted_after_a_restart(restarted: Restarted) -> None:
    plain = Producer({"bootstrap.servers": restarted.address})
    plain.produce("abandoned", b"after", partition=0)
    assert plain.flush(60) == 0

    wait_until(
        lambda: read_to_end(restarted.address, "abandoned") == [b"before", b"after"],
        what="the abort by timeout",
    )


def test_a_new_instance_fences_the_old_one_after_a_restart(restarted: Restarted) -> None:
    heir = transactional_producer(restarted.address, "replaced")
    transact(heir, "replaced", b"mine")

    with pytest.raises(KafkaException):
        restarted.replaced.commit_transaction(90)
    assert read_to_end(restarted.address, "replaced") == [b"before", b"mine"]


class Writer:
    """Transactions without end: each writes its number to every partition."""

    def __init__(self, address: str, topic: str) -> None:
        self.committed: set[bytes] = set()
        self.failure: BaseException | None = None
        self._topic = topic
        self._producer = transactional_producer(address, topic)
        self._stop = Event()
        self._thread = Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        number = 0
        while not self._stop.is_set():
            number += 1
            value = b"%d" % number
            try:
                self._producer.begin_transaction()
                for partition in PARTITIONS:
                    self._producer.produce(self._topic, value, partition=partition)
                self._commit()
                self.committed.add(value)
            except KafkaException as failure:
                if failure.args[0].fatal():
                    self.failure = failure
                    return
                self._abort()

    def _commit(self) -> None:
        """As librdkafka wants it: what can be retried is retried."""
        while True:
            try:
                self._producer.commit_transaction(90)
            except KafkaException as failure:
                if not failure.args[0].retriable():
                    raise
            else:
                return

    def _abort(self) -> None:
        with contextlib.suppress(KafkaException):
            self._producer.abort_transaction(90)

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()


def test_every_transaction_is_whole_after_kills_under_load(
    own_broker: BrokerProcess, topic: str
) -> None:
    own_broker.settings = {**QUICK_SETTINGS, "log.flush.interval.messages": "1"}
    own_broker.start()
    create_topic(own_broker.address, topic, len(PARTITIONS))
    writer = Writer(own_broker.address, topic)
    for _ in range(2):
        before = len(writer.committed)
        wait_until(lambda: len(writer.committed) > before + 20, what="commits")  # noqa: B023
        own_broker.kill()
        own_broker.start()
    before = len(writer.committed)
    wait_until(lambda: len(writer.committed) > before + 20, what="commits after the last start")
    writer.stop()

    assert writer.failure is None
    first, second = (read_to_end(own_broker.address, topic, (each,)) for each in PARTITIONS)
    assert first == second
    assert len(set(first)) == len(first)
    assert writer.committed <= set(first)
