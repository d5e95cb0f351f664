"""What Apache Kafka's own producer makes of a transaction that its coordinator has aborted."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError

from headrace.testing.readiness import wait_until
from testkit.peer.java_gateway import JavaGatewayProcess
from testkit.peer.kafka_jars import KAFKA_JARS
from testkit.peer.kafka_tool import KafkaTools
from testkit.peer.transactional import read_to_end
from testkit.process.broker_process import BrokerProcess
from testkit.process.member import create_topic
from testkit.process.wire_client import WireClient
from testkit.sample.wire_transaction import WireTransaction

pytestmark = pytest.mark.interop

_STRINGS = "org.apache.kafka.common.serialization.StringSerializer"


class JavaClients(JavaGatewayProcess):
    """A Java that has Kafka's clients, and lives as long as a scenario takes."""

    NAME = "Kafka's clients"
    START_SECONDS = 120.0

    def __init__(self, folder: Path, scenario: Callable[[Any], None]) -> None:
        super().__init__(folder)
        self._scenario = scenario

    def _form(self, jvm: Any) -> None:
        self._scenario(jvm)

    def _classpath(self) -> Sequence[str]:
        return [KAFKA_JARS.find().classpath]


def producer(jvm: Any, address: str, name: str) -> Any:
    settings = jvm.java.util.Properties()
    for key, value in {
        "bootstrap.servers": address,
        "transactional.id": name,
        "transaction.timeout.ms": "2000",
        "key.serializer": _STRINGS,
        "value.serializer": _STRINGS,
    }.items():
        settings.put(key, value)
    return jvm.org.apache.kafka.clients.producer.KafkaProducer(settings)


def write(jvm: Any, sender: Any, topic: str, value: str) -> None:
    sender.beginTransaction()
    sender.send(jvm.org.apache.kafka.clients.producer.ProducerRecord(topic, value)).get()


def test_it_is_fenced_by_its_commit_and_goes_on_after_its_abort(
    broker: BrokerProcess, kafka_tools: KafkaTools, topic: str, tmp_path: Path
) -> None:
    """Not stopped by InvalidTxnStateException: that is a mistake of the application's."""
    create_topic(broker.address, topic, 1)
    thrown: list[str] = []

    def scenario(jvm: Any) -> None:
        with WireClient(broker.address) as client:
            state = WireTransaction(client, topic).state
            sender = producer(jvm, broker.address, topic)
            sender.initTransactions()
            write(jvm, sender, topic, "late")
            wait_until(lambda: state() == "CompleteAbort", what="the timeout")
            sender.abortTransaction()
            write(jvm, sender, topic, "later")
            wait_until(lambda: state() == "CompleteAbort", what="the second timeout")
            with pytest.raises(Py4JJavaError) as failed:
                sender.commitTransaction()
            thrown.append(failed.value.java_exception.getClass().getSimpleName())
            sender.close()

    with JavaClients(tmp_path, scenario):
        pass

    assert thrown == ["ProducerFencedException"]
    assert read_to_end(broker.address, topic) == []
