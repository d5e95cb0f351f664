"""The Spark session and the broker that both sides of a Spark benchmark share."""

from itertools import count
from pathlib import Path
from typing import Any

from bench.broker_pair import Broker
from bench.spark_session import bench_session

OURS, THEIRS = "headrace", "kafka"

_numbers = count(1)


class Ground:
    """One session and one broker."""

    def __init__(self, folder: Path, broker: Broker) -> None:
        self.folder = folder
        self.broker = broker
        self.spark = bench_session(folder)

    def of(self, reader_or_writer: Any, side: str, **options: str) -> Any:
        made = reader_or_writer.format(side).options(**options)
        return made.option("kafka.bootstrap.servers", self.broker.address)

    def checkpoint(self) -> str:
        return str(self.folder / f"checkpoint-{next(_numbers)}")

    def observed(self, stream: Any, **sums: Any) -> tuple[int, ...]:
        """Read what is there of a stream, and return what all its rows sum up to."""
        seen = stream.observe("seen", *(each.alias(name) for name, each in sums.items()))
        writer = seen.writeStream.format("noop").option("checkpointLocation", self.checkpoint())
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        found = [each.observedMetrics.get("seen") for each in query.recentProgress]
        return tuple(sum(each[name] or 0 for each in found if each is not None) for name in sums)
