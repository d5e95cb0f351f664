"""The two brokers of a comparison, side by side on this machine: ours and Apache Kafka."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Protocol, TypeAlias, TypeVar

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._listoffsets import OffsetSpec
from confluent_kafka.cimpl import NewTopic

from bench.row import Row, median, spread
from headrace.testing.readiness import wait_until
from testkit.peer.apache_kafka import STOCK, ApacheKafka
from testkit.process.broker_process import BrokerProcess
from testkit.process.process_usage import ProcessUsage

_numbers = count(1)


class Broker(Protocol):
    """What `BrokerProcess` and `ApacheKafka` have in common."""

    @property
    def address(self) -> str: ...

    def usage(self) -> ProcessUsage: ...

    def start(self) -> None: ...

    def stop(self) -> object: ...


def headrace(folder: Path) -> BrokerProcess:
    """Default settings."""
    return BrokerProcess(folder / "headrace", settings={})


def kafka(folder: Path) -> ApacheKafka:
    """Default settings and a heap of 1 GiB, as Kafka's own start script gives."""
    return ApacheKafka(folder / "kafka", profile=STOCK)


@dataclass(frozen=True, slots=True)
class Pair:
    ours: Broker
    theirs: Broker


@contextmanager
def running_pair(folder: Path) -> Iterator[Pair]:
    """Killed at the end: their data goes with them, and Kafka flushes thousands of logs to stop."""
    ours, theirs = headrace(folder), kafka(folder)
    try:
        ours.start()
        theirs.start()
        yield Pair(ours, theirs)
    finally:
        ours.kill()
        theirs.kill()


Figures: TypeAlias = dict[str, float]
"""What one round of one side measured, by name."""

Rounds: TypeAlias = dict[str, list[float]]


Side = TypeVar("Side", covariant=True)


class Sides(Protocol[Side]):
    """A `Pair`, or another two of a kind."""

    @property
    def ours(self) -> Side: ...

    @property
    def theirs(self) -> Side: ...


def alternate_rounds(
    pair: Sides[Side], measure: Callable[[Side], Figures], *, rounds: int, warm_up: bool = True
) -> tuple[Rounds, Rounds]:
    """Both sides in turn. The first round of each counts for nothing: it warms a JVM's compiler.

    What a round left to be written is on the disk before the next one begins.
    """
    ours: Rounds = {}
    theirs: Rounds = {}
    for number in range(-1 if warm_up else 0, rounds):
        for side, kept in ((pair.ours, ours), (pair.theirs, theirs)):
            os.sync()
            figures = measure(side)
            if number >= 0:
                for name, value in figures.items():
                    kept.setdefault(name, []).append(value)
    return ours, theirs


def new_topic(broker: Broker, partitions: int, *, replicas: int = 1) -> str:
    """A topic of its own for each round, each partition of it ready to be written to."""
    name = f"bench-{next(_numbers)}"
    admin = AdminClient({"bootstrap.servers": broker.address})
    admin.create_topics([NewTopic(name, partitions, replicas)])[name].result(60)
    latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
    wanted = {TopicPartition(name, each): latest for each in range(partitions)}

    def led() -> bool:
        """Kafka answers before it leads: ask each partition for something only a leader knows."""
        try:
            for found in admin.list_offsets(wanted, request_timeout=10).values():
                found.result(30)
        except KafkaException:
            return False
        return True

    wait_until(led, what=f"a leader for each partition of {name}", timeout_seconds=120)
    return name


def delete_topic(broker: Broker, name: str) -> None:
    """Make room on the disk for the next round."""
    admin = AdminClient({"bootstrap.servers": broker.address})  # lives until it is answered
    admin.delete_topics([name])[name].result(60)


def cpu_of(broker: Broker, work: Callable[[], float]) -> tuple[float, float]:
    """What the work answers, and the CPU seconds that the broker spent meanwhile."""
    before = broker.usage().cpu_seconds
    answer = work()
    return answer, broker.usage().cpu_seconds - before


def row_of(
    name: str,
    both: tuple[Rounds, Rounds],
    figure: str,
    unit: str,
    *,
    at_least: float | None = None,
    at_most: float | None = None,
) -> Row:
    """Return the line of the table for one figure of both sides' rounds."""
    ours, theirs = both[0][figure], both[1][figure]
    ratio = median(ours) / max(median(theirs), 1e-9)
    bar, reached = "", None
    if at_least is not None:
        bar, reached = f"≥ {at_least:g}×", ratio >= at_least
    elif at_most is not None:
        bar, reached = f"≤ {at_most:g}×", ratio <= at_most
    return Row(
        name=name,
        ours=median(ours),
        theirs=median(theirs),
        unit=unit,
        spread=spread(ours),
        bar=bar,
        reached=reached,
    )
