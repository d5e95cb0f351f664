"""MirrorMaker 2: its source connector in a worker of Kafka Connect."""

from collections.abc import Sequence
from pathlib import Path

from headrace.testing.readiness import wait_until
from testkit.peer.apache_kafka import STOCK
from testkit.peer.connect_worker import ConnectWorker
from testkit.peer.java import SHORT_RUN
from testkit.peer.mirror_jars import MIRROR_MAKER_JARS

_BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"

# What connect-mirror-maker.sh gives: Kafka's options, and a heap of its own.
STOCK_OPTIONS = (
    *(each for each in STOCK.java_options if not each.startswith("-Xm")),
    *("-Xms256m", "-Xmx2g"),
)


class MirrorMaker(ConnectWorker):
    """A worker with its own defaults, among them that sources are at least once.

    Args:
        target: the cluster that flows write to; the worker keeps its state there, too.
        java_options: of the JVM; `STOCK_OPTIONS` for a measurement.

    Example:
        with MirrorMaker(tmp_path / "mm2", target.address) as mirror:
            mirror.copy("flow", source.address, "us", "clicks")

    Raises:
        PeerMissing: when Java or the jars are not there.
    """

    NAME = "MirrorMaker"

    def __init__(
        self,
        folder: Path,
        target: str,
        java_options: Sequence[str] = (*SHORT_RUN, "-Xmx256m"),
    ) -> None:
        defaults = {
            "exactly.once.source.support": "disabled",
            "offset.flush.interval.ms": "60000",
            "session.timeout.ms": "10000",
            "heartbeat.interval.ms": "3000",
        }
        plugins = (MIRROR_MAKER_JARS,)
        super().__init__(folder, target, "mirror-maker", plugins, defaults, java_options)
        self._target = target

    def copy(self, name: str, source: str, alias: str, topic: str, tasks: int = 2) -> None:
        """Start a connector that copies one topic to `ALIAS.TOPIC`, with its own defaults."""
        self.call(
            "PUT",
            f"/connectors/{name}/config",
            {
                "connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector",
                "source.cluster.alias": alias,
                "target.cluster.alias": "target",
                "source.cluster.bootstrap.servers": source,
                "target.cluster.bootstrap.servers": self._target,
                "topics": topic,
                "tasks.max": str(tasks),
                "key.converter": _BYTES,
                "value.converter": _BYTES,
                # One broker cannot replicate.
                "replication.factor": "1",
                "offset-syncs.topic.replication.factor": "1",
            },
        )

    def end(self, name: str) -> None:
        """Remove a connector."""
        self.call("DELETE", f"/connectors/{name}")
        wait_until(lambda: name not in self.call("GET", "/connectors"), what=f"the end of {name}")
