"""Real Kafka Connect on our broker: distributed, exactly once, over kill -9 of its worker."""

from pathlib import Path

import pytest

from headrace.client.error import ClientError
from headrace.client.read.reader import Reader
from headrace.testing.readiness import wait_until
from testkit.peer.connect_worker import ConnectWorker
from testkit.peer.peer import PeerMissing, require_peer
from testkit.process.broker_process import BrokerProcess

pytestmark = pytest.mark.interop

LINES = 1000
SECONDS = 240.0


def values(broker: BrokerProcess, topic: str) -> list[int]:
    """Return the committed records; none while there is no topic."""
    settings = {"bootstrap.servers": broker.address}
    try:
        with Reader.of_topics(settings, topic, read_committed=True) as reader:
            return [int(each) for each in reader.read_all()["value"].to_pylist()]
    except ClientError:
        return []


class GrowingFile:
    """A file of numbered lines."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._next = 0

    def grow(self, count: int) -> None:
        with self.path.open("a") as file:
            file.writelines(f"{line}\n" for line in range(self._next, self._next + count))
        self._next += count


def test_lines_of_a_file_are_in_the_topic_once_over_kill_9(
    tmp_path: Path, broker: BrokerProcess, topic: str
) -> None:
    file = GrowingFile(tmp_path / "lines.txt")
    file.grow(LINES)
    connector = {
        "connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector",
        "tasks.max": "1",
        "file": str(file.path),
        "topic": topic,
        "batch.size": "10",  # a transaction each
        "exactly.once.support": "required",
    }
    try:
        worker = ConnectWorker(tmp_path / "connect", broker.address, f"connect-{topic}")
    except PeerMissing as missing:
        require_peer(str(missing))
    with worker:
        worker.call("POST", "/connectors", {"name": "lines", "config": connector})
        wait_until(lambda: bool(values(broker, topic)), what="lines", timeout_seconds=SECONDS)
        worker.kill()
        worker.start()

        def all_lines() -> bool:
            # The connector keeps lines of a full batch back until its file grows.
            file.grow(10)
            return len(values(broker, topic)) >= LINES

        wait_until(all_lines, what="all lines", timeout_seconds=SECONDS)
        status = worker.call("GET", "/connectors/lines/status")
        assert [task["state"] for task in status["tasks"]] == ["RUNNING"]
    found = values(broker, topic)
    assert found == list(range(len(found)))
