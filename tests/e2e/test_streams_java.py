"""Kafka Streams on our broker: exactly once, with standbys, while threads come and go.

An instance of Streams that is closed does not leave its group. Members that join meanwhile wait for
its session to end, on Apache Kafka as well (42 s of a session of 45 s were seen there); the program
asks for a short session, which bounds each close.
"""

import subprocess
from collections import defaultdict
from pathlib import Path

import pytest
from confluent_kafka import Producer

from testkit.peer.java import SHORT_RUN
from testkit.peer.kafka_tool import KafkaTools
from testkit.peer.peer import PeerMissing, require_peer
from testkit.peer.stock_consumer import read_topic
from testkit.peer.streams_jars import STREAMS_JARS
from testkit.process.broker_process import BrokerProcess
from testkit.process.member import create_topic

pytestmark = pytest.mark.interop

PROGRAM = Path(__file__).with_name("program") / "StreamsRebalance.java"
PARTITIONS = 4
KEYS = 20
# A session of the program, its rebalances, and a busy machine; less than the session that it would
# have without asking for a short one.
CLOSE_MS = 40_000


def test_instances_count_exactly_once_and_close_while_threads_come_and_go(
    broker: BrokerProcess, kafka_tools: KafkaTools, topic: str, tmp_path: Path
) -> None:
    try:
        jars = STREAMS_JARS.find()
    except PeerMissing as missing:
        require_peer(str(missing))
    source, target = f"{topic}-in", f"{topic}-out"
    create_topic(broker.address, source, PARTITIONS)
    create_topic(broker.address, target, PARTITIONS)
    producer = Producer({"bootstrap.servers": broker.address})
    command = kafka_tools.java.command(
        str(PROGRAM),
        (broker.address, topic, source, target, str(tmp_path)),
        classpath=f"{kafka_tools.jars.classpath}:{jars.classpath}",
        options=[*SHORT_RUN, f"-Dlog4j2.configurationFile={kafka_tools.logging}"],
    )
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as streams:
        number = 0
        while streams.poll() is None:
            producer.produce(source, b"v", key=b"key %d" % (number % KEYS))
            producer.poll(0.002)
            number += 1
        assert streams.stdout is not None
        said = streams.stdout.read()
    producer.flush(60)

    steps = {
        name: rest.split() for name, _, rest in (line.partition(": ") for line in said.splitlines())
    }
    assert streams.returncode == 0, said
    assert list(steps) == ["start", "add", "remove", "close second", "close first"], said
    assert all(done == "true" for _, _, done in steps.values()), said
    assert all(int(ms) < CLOSE_MS for name, (ms, _, _) in steps.items() if "close" in name), said
    counts: dict[bytes, list[int]] = defaultdict(list)
    for records in read_topic(broker.address, target, range(PARTITIONS)).values():
        for record in records:
            counts[record.key or b""].append(int(record.value or b"0"))
    assert counts
    for key, counted in counts.items():
        assert counted == list(range(1, len(counted) + 1)), f"{key!r} was counted {counted}"
