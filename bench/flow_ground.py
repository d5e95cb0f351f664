"""What the benchmarks of flows share: a broker, a Spark session on two cores, and how long and how
often they run."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

from bench import rdkafka_client
from bench.broker_pair import Broker, headrace, new_topic
from bench.spark_session import bench_session
from headrace.flow.execution.job import start
from headrace.flow.storm.topology import Topology
from testkit.peer.spark_session import stop_java

ROUNDS = int(os.environ.get("HEADRACE_BENCH_ROUNDS", "3"))
SCALE = float(os.environ.get("HEADRACE_BENCH_SCALE", "1"))
NOW: dict[str, Any] = {"availableNow": True}
"""The trigger of a query that ends when it has read what was there."""

_PARTITIONS = 4
_SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"


class Ground:
    """One broker and one session, which all sides of a comparison use in turn."""

    def __init__(self, folder: Path, broker: Broker) -> None:
        self.folder, self.broker = folder, broker
        self.spark = bench_session(folder)
        self._numbers = count(1)

    def number(self) -> int:
        """A number for a name that nothing else here has."""
        return next(self._numbers)

    def checkpoint(self) -> Path:
        return self.folder / f"checkpoint-{self.number()}"

    def produce(self, values: list[bytes], records: int) -> str:
        """A new topic of four partitions with so many records: the values in turn."""
        topic = new_topic(self.broker, _PARTITIONS)
        rdkafka_client.produce(
            self.broker.address, topic, values, records=records, partitions=_PARTITIONS
        )
        return topic

    def run(self, topology: Topology) -> list[Any]:
        """Everything that is there; Spark's report of each batch."""
        query = start(
            topology.plan(),
            self.spark,
            brokers=self.broker.address,
            checkpoint=self.checkpoint(),
            trigger=NOW,
        )
        query.awaitTermination()
        return list(query.recentProgress)


@contextmanager
def flow_ground() -> Iterator[Ground]:
    """The ground in a folder of its own, which is gone afterwards."""
    folder = Path(
        tempfile.mkdtemp(prefix="headrace-bench-", dir=os.environ.get("HEADRACE_BENCH_DIR"))
    )
    broker = headrace(folder)
    try:
        broker.start()
        ground = Ground(folder, broker)
        try:
            yield ground
        finally:
            ground.spark.stop()
            stop_java()
    finally:
        broker.kill()
        shutil.rmtree(folder)


@contextmanager
def shuffle_partitions(spark: Any, count: int) -> Iterator[None]:
    """Let a query that is started in the block have so many partitions between stages, as its
    author would. Afterwards nothing is set, as before: flows choose for themselves then."""
    spark.conf.set(_SHUFFLE_PARTITIONS, str(count))
    try:
        yield
    finally:
        spark.conf.unset(_SHUFFLE_PARTITIONS)
