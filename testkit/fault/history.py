"""A recorded history of writes and reads on a cluster, and the check of the log's guarantees.

In the spirit of Jepsen's Kafka workload. Clients record every answer they get; at the end the log
is read once more, whole. Violations:

- *lost write*: a record was acknowledged and is not in the log;
- *inconsistent offset*: two reads, or a read and an acknowledgement, differ in what lies at an
offset;
- *duplicate*: a record is in the log twice, though its producer was idempotent;
- *aborted read*: a reader of committed records saw one of a transaction that was aborted;
- *non-monotonic poll*: a reader was sent back without having asked for it;
- *unseen*: a record that is in the log was skipped by a reader that went past it;
- *undelivered*: a record that is in the log never came to a group that read to its end. (A group
  may see one twice: it goes on from what it committed.)
"""

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from threading import Lock


@dataclass(frozen=True, slots=True)
class LogPosition:
    """The partition and offset of a record."""

    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class Anomaly:
    """One violation of the log's guarantees."""

    kind: str
    what: str


@dataclass(slots=True)
class History:
    """Written to by any thread; checked when all clients have ended.

    Attributes:
        acknowledged: value and where it was said to be, if that was said.
        aborted: values of transactions that were aborted for certain.
        polls: by reader, what it saw in which order.
        delivered: by group, what its members saw.
    """

    acknowledged: list[tuple[str, LogPosition | None]] = field(default_factory=list)
    aborted: set[str] = field(default_factory=set)
    polls: dict[str, list[tuple[str, LogPosition]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    delivered: dict[str, set[tuple[str, LogPosition]]] = field(
        default_factory=lambda: defaultdict(set)
    )
    _lock: Lock = field(default_factory=Lock)

    def acknowledge(self, value: str, partition: int, offset: int | None) -> None:
        """Note that a value is in the log; its producer may not know at which offset."""
        place = None if offset is None else LogPosition(partition, offset)
        with self._lock:
            self.acknowledged.append((value, place))

    def abort(self, values: Iterable[str]) -> None:
        with self._lock:
            self.aborted.update(values)

    def poll(self, reader: str, value: str, partition: int, offset: int) -> None:
        with self._lock:
            self.polls[reader].append((value, LogPosition(partition, offset)))

    def deliver(self, group: str, value: str, partition: int, offset: int) -> None:
        with self._lock:
            self.delivered[group].add((value, LogPosition(partition, offset)))

    def check(self, final: Iterable[tuple[str, LogPosition]]) -> list[Anomaly]:
        """Return the violations, given the whole log as one last reader saw it."""
        final = list(final)
        log = {place: value for value, place in final}
        return [
            *self._lost(final),
            *self._inconsistent(log),
            *_duplicates(final),
            *self._aborted_reads(final),
            *self._disordered(),
            *self._unseen(log),
            *self._undelivered(final),
        ]

    def _lost(self, final: list[tuple[str, LogPosition]]) -> Iterable[Anomaly]:
        there = {value for value, _ in final}
        for value, place in self.acknowledged:
            if value not in there and value not in self.aborted:
                where = "without an offset" if place is None else f"at {place}"
                yield Anomaly("lost write", f"{value} was acknowledged {where}")

    def _inconsistent(self, log: dict[LogPosition, str]) -> Iterable[Anomaly]:
        for value, place in [*self.acknowledged, *self._read()]:
            found = log.get(place) if place is not None else None
            if found is not None and found != value:
                yield Anomaly("inconsistent offset", f"{place} holds {found} and held {value}")

    def _aborted_reads(self, final: list[tuple[str, LogPosition]]) -> Iterable[Anomaly]:
        for value, place in [*final, *self._read()]:
            if value in self.aborted:
                yield Anomaly("aborted read", f"{value} at {place} was aborted")

    def _read(self) -> Iterable[tuple[str, LogPosition]]:
        """Return everything that any reader saw."""
        for polls in (*self.polls.values(), *self.delivered.values()):
            yield from polls

    def _undelivered(self, final: list[tuple[str, LogPosition]]) -> Iterable[Anomaly]:
        for group, seen in self.delivered.items():
            for value, place in final:
                if (value, place) not in seen:
                    yield Anomaly("undelivered", f"{group} never got {value} at {place}")

    def _disordered(self) -> Iterable[Anomaly]:
        for reader, polls in self.polls.items():
            last: dict[int, int] = {}
            for value, place in polls:
                before = last.get(place.partition, -1)
                if place.offset <= before:
                    yield Anomaly(
                        "non-monotonic poll",
                        f"{reader} saw {value} at {place} after offset {before}",
                    )
                last[place.partition] = place.offset

    def _unseen(self, log: dict[LogPosition, str]) -> Iterable[Anomaly]:
        by_partition: dict[int, list[int]] = defaultdict(list)
        for place in log:
            by_partition[place.partition].append(place.offset)
        for reader, polls in self.polls.items():
            seen: dict[int, set[int]] = defaultdict(set)
            for _, place in polls:
                seen[place.partition].add(place.offset)
            for partition, offsets in seen.items():
                first, last = min(offsets), max(offsets)
                for offset in by_partition[partition]:
                    if first < offset < last and offset not in offsets:
                        value = log[LogPosition(partition, offset)]
                        yield Anomaly("unseen", f"{reader} went past {value} at {offset}")


def _duplicates(final: list[tuple[str, LogPosition]]) -> Iterable[Anomaly]:
    for value, times in Counter(value for value, _ in final).items():
        if times > 1:
            yield Anomaly("duplicate", f"{value} is in the log {times} times")
