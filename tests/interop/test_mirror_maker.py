"""MirrorMaker 2 in a worker of Kafka Connect, from one Headrace to another."""

from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from headrace.testing.readiness import wait_until
from testkit.peer.mirror_maker import MirrorMaker
from testkit.peer.peer import PeerMissing, require_peer
from testkit.peer.stock_consumer import read_topic
from testkit.process.broker_process import BrokerProcess
from testkit.process.member import create_topic, produce

pytestmark = pytest.mark.interop

COUNT = 300


def test_mirror_maker_copies_from_headrace_to_headrace(
    tmp_path: Path, broker: BrokerProcess, own_broker: BrokerProcess, topic: str
) -> None:
    own_broker.start()
    create_topic(broker.address, topic, 1)
    values = [b"value %d" % number for number in range(COUNT)]
    produce(broker.address, topic, values, 1)
    try:
        worker = MirrorMaker(tmp_path / "mm2", own_broker.address)
    except PeerMissing as missing:
        require_peer(str(missing))
    admin = AdminClient({"bootstrap.servers": own_broker.address})
    copy = f"here.{topic}"

    def arrived() -> bool:
        present = copy in admin.list_topics(timeout=60).topics
        return present and len(read_topic(own_broker.address, copy)[0]) >= COUNT

    with worker:
        worker.copy("flow", broker.address, "here", topic)
        wait_until(arrived, what=f"the copy: {worker.log[-2000:]}")
        found = [each.value for each in read_topic(own_broker.address, copy)[0]]
        worker.end("flow")
    assert found == values
