"""Idempotent producers: a retry is never a second record, not even over a restart."""

import time
from collections.abc import Iterator
from threading import Event, Thread
from typing import Any

import pytest
from confluent_kafka import Producer

from headrace.testing.readiness import wait_until
from headrace.wire.api import ApiKey
from headrace.wire.error_code import ErrorCode
from testkit.peer.transactional import read_to_end
from testkit.process.broker_process import BrokerProcess
from testkit.process.member import create_topic
from testkit.process.wire_client import WireClient
from testkit.sample.batch import sample_batch

NONE = ErrorCode.none


class Sender:
    """An idempotent producer that sends single batches."""

    def __init__(self, client: WireClient, topic: str) -> None:
        self.client = client
        self.topic = topic
        given = client.ask(ApiKey.INIT_PRODUCER_ID, 4, {"transactional_id": None})
        assert given.error_code == NONE
        self.id, self.epoch = given.producer_id, given.producer_epoch

    def send(self, sequence: int, *values: bytes, epoch: int | None = None) -> tuple[int, int]:
        """The error code and the offset the batch got."""
        batch = sample_batch(
            *(values or (b"v",)),
            timestamp_ms=time.time_ns() // 1_000_000,
            producer_id=self.id,
            producer_epoch=self.epoch if epoch is None else epoch,
            sequence=sequence,
        )
        body: dict[str, Any] = {
            "transactional_id": None,
            "acks": -1,
            "timeout": 1000,
            "topic_data": [
                {"name": self.topic, "partition_data": [{"index": 0, "records": batch}]}
            ],
        }
        answer = self.client.ask(ApiKey.PRODUCE, 9, body).topics[0].partitions[0]
        return answer.error_code, answer.base_offset


@pytest.fixture
def sender(broker: BrokerProcess, topic: str) -> Iterator[Sender]:
    create_topic(broker.address, topic, 1)
    with WireClient(broker.address) as client:
        yield Sender(client, topic)


def test_a_batch_sent_again_gets_the_offset_it_has(sender: Sender) -> None:
    answers = [sender.send(sequence, b"a", b"b") for sequence in (0, 2, 4, 2, 0, 4)]

    assert answers == [(NONE, offset) for offset in (0, 2, 4, 2, 0, 4)]


def test_only_the_last_five_batches_are_remembered(sender: Sender) -> None:
    for sequence in range(6):
        assert sender.send(sequence) == (NONE, sequence)

    assert sender.send(1) == (NONE, 1)
    assert sender.send(0)[0] == ErrorCode.out_of_order_sequence_number


def test_a_gap_is_refused_and_nothing_of_it_kept(sender: Sender) -> None:
    sender.send(0)

    assert sender.send(2) == (ErrorCode.out_of_order_sequence_number, -1)
    assert sender.send(1) == (NONE, 1)


def test_a_new_epoch_begins_at_0_and_ends_the_old_one(sender: Sender) -> None:
    sender.send(0)

    assert sender.send(1, epoch=1)[0] == ErrorCode.out_of_order_sequence_number
    assert sender.send(0, epoch=1) == (NONE, 1)
    assert sender.send(1, epoch=0)[0] == ErrorCode.invalid_producer_epoch


def test_sequences_wrap_after_the_largest_int(sender: Sender) -> None:
    assert sender.send(2**31 - 2, b"a", b"b") == (NONE, 0)
    assert sender.send(0) == (NONE, 2)


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_the_last_batch_sent_again_after_a_restart_gets_the_offset_it_has(
    own_broker: BrokerProcess, topic: str, end: str
) -> None:
    """Kafka's snapshot of a partition's producers has room for the last batch of each."""
    own_broker.start()
    create_topic(own_broker.address, topic, 1)
    with WireClient(own_broker.address) as client:
        before = Sender(client, topic)
        assert [before.send(sequence) for sequence in (0, 1)] == [(NONE, 0), (NONE, 1)]
        getattr(own_broker, end)()
        own_broker.start()

    with WireClient(own_broker.address) as client:
        before.client = client
        assert [before.send(sequence) for sequence in (1, 2)] == [(NONE, 1), (NONE, 2)]
        assert Sender(client, topic).id > before.id


def test_nothing_is_missing_and_nothing_is_there_twice_after_kills_under_load(
    own_broker: BrokerProcess, topic: str
) -> None:
    own_broker.start()
    create_topic(own_broker.address, topic, 1)
    producer = Producer(
        {
            "bootstrap.servers": own_broker.address,
            "enable.idempotence": True,
            "linger.ms": 0,
            "batch.num.messages": 10,
            "retry.backoff.ms": 10,
            "reconnect.backoff.max.ms": 100,
        }
    )
    acknowledged = 0
    stop = Event()

    def delivered(error: Any, _: Any) -> None:
        nonlocal acknowledged
        assert error is None, error
        acknowledged += 1

    sent = 0

    def send() -> None:
        nonlocal sent
        while not stop.wait(0.0005):
            producer.poll(0)
            if len(producer) < 500:  # a broker that starts slowly finds no endless backlog
                producer.produce(topic, b"%d" % sent, partition=0, on_delivery=delivered)
                sent += 1

    thread = Thread(target=send)
    thread.start()
    try:
        for _ in range(2):
            # So all that was sent again after a crash is answered: by order it came before.
            before = sent
            wait_until(lambda: acknowledged > before + 200, what="records")  # noqa: B023
            own_broker.kill()
            own_broker.start()
    finally:
        stop.set()
        thread.join()
    assert producer.flush(90) == 0

    found = read_to_end(own_broker.address, topic)
    assert found == [b"%d" % number for number in range(sent)]
