"""The properties file that comes with Apache Kafka runs as it is."""

import re
import subprocess
import sys
from pathlib import Path

from headrace.testing.readiness import free_port, wait_until

# The keys of Kafka 4.2's config/server.properties, with ports and directories of our own.
STOCK = """
# a comment
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=localhost:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
inter.broker.listener.name=PLAINTEXT
advertised.listeners=PLAINTEXT://localhost:{port},CONTROLLER://localhost:{controller}
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_SSL:SASL_SSL
num.network.threads=3
num.io.threads=8
socket.send.buffer.bytes=102400
socket.receive.buffer.bytes=102400
socket.request.max.bytes=104857600
log.dirs={data}
num.partitions=1
num.recovery.threads.per.data.dir=2
offsets.topic.replication.factor=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
log.retention.hours=168
log.segment.bytes=1073741824
log.retention.check.interval.ms=300000
"""


def test_the_stock_file_starts_a_broker_and_names_what_has_no_effect(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text(STOCK.format(port=free_port(), controller=free_port(), data=tmp_path / "data"))
    output = tmp_path / "output"
    with output.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "headrace.cli.main", "up", "--config", str(file)],
            stdout=out,
            stderr=subprocess.STDOUT,
        )
    try:
        wait_until(
            lambda: "listens on" in output.read_text() or process.poll() is not None,
            what="the start",
        )
        assert process.poll() is None, output.read_text()
        assert re.search(r"config_key_ignored +key=num\.io\.threads", output.read_text())
    finally:
        process.terminate()
        process.wait(90)
    assert process.returncode == 0
