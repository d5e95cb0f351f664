"""A transaction that is aborted while an answer of the broker is lost, with stock librdkafka."""

from confluent_kafka import KafkaException, Producer

from headrace.testing.readiness import wait_until
from testkit.fault.lossy_proxy import LossyProxy
from testkit.peer.transactional import read_to_end
from testkit.process.broker_process import BrokerProcess
from testkit.process.member import create_topic

# The proxy takes only what is as long as records for a request whose answer counts.
LENGTH = 20_000


def test_the_record_behind_an_aborted_one_is_in_the_log_if_it_was_committed(
    own_broker: BrokerProcess, topic: str
) -> None:
    """The aborted one is in the log, too, and waits to be sent again: librdkafka forgets that its
    number is taken."""
    zero, first, second = (each * LENGTH for each in (b"0", b"1", b"2"))
    with LossyProxy() as proxy:
        own_broker.settings |= {
            "listeners": "PLAINTEXT://127.0.0.1:0",
            "advertised.listeners": f"PLAINTEXT://{proxy.address}",
        }
        own_broker.start()
        proxy.target(own_broker.address)
        create_topic(own_broker.address, topic, 1)
        producer = Producer(
            {
                "bootstrap.servers": proxy.address,
                "transactional.id": topic,
                "retry.backoff.ms": 10_000,
                "retry.backoff.max.ms": 10_000,
            }
        )
        producer.init_transactions(90)
        assert _committed(producer, topic, zero)
        producer.begin_transaction()
        proxy.lose_answers(1)
        producer.produce(topic, first)
        wait_until(lambda: producer.poll(0) >= 0 and proxy.lost == 1, what="a lost answer")
        producer.poll(0.5)
        producer.abort_transaction(90)

        assert _committed(producer, topic, second) or _committed(producer, topic, second)

        assert read_to_end(own_broker.address, topic) == [zero, second]


def _committed(producer: Producer, topic: str, value: bytes) -> bool:
    """Write a value in a transaction; or abort it, if the producer says that it must be."""
    producer.begin_transaction()
    producer.produce(topic, value)
    try:
        producer.commit_transaction(90)
    except KafkaException as error:
        assert error.args[0].txn_requires_abort(), error
        producer.abort_transaction(90)
        return False
    return True
