"""Which records of a refused batch Apache Kafka's Java producer reports, and how (KIP-467)."""

import subprocess
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from testkit.peer.java import SHORT_RUN
from testkit.peer.kafka_tool import KafkaTools
from testkit.process.broker_process import BrokerProcess

pytestmark = pytest.mark.interop

PROGRAM = Path(__file__).with_name("program") / "KeylessRecord.java"


def test_a_record_without_a_key_fails_by_itself_in_the_java_producer(
    broker: BrokerProcess, kafka_tools: KafkaTools, topic: str
) -> None:
    admin = AdminClient({"bootstrap.servers": broker.address})
    compacted = NewTopic(topic, 1, 1, config={"cleanup.policy": "compact"})
    admin.create_topics([compacted])[topic].result(60)

    command = kafka_tools.java.command(
        str(PROGRAM),
        (broker.address, topic),
        classpath=kafka_tools.jars.classpath,
        options=[*SHORT_RUN, f"-Dlog4j2.configurationFile={kafka_tools.logging}"],
    )
    said = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)

    assert said.returncode == 0, said.stderr
    first, second, third = said.stdout.splitlines()
    # The response names the record, so the producer fails the others for being in its batch.
    assert second.startswith("InvalidRecordException: it has no key"), said.stdout
    assert first == third, said.stdout
    assert first.startswith(
        "KafkaException: Failed to append record because it was part of a batch"
    )
