"""Committed offsets of all groups of one shard, and those still inside a transaction.

Theory of operation. An offset lives under (group, topic, partition). A plain commit replaces it. A
commit inside a transaction (KIP-98) waits beside it, under its producer, until the transaction's
marker arrives in the same log: commit makes it the offset, abort drops it.

Rule 1: state changes only in `apply` and `complete_transaction`, called after the append and, in
        the same order, when the log is read again; so a reload gives the same offsets.
Rule 2: what counts is the order in the log. A transactional offset that was written before a plain
        commit does not replace it, though its marker comes later.
Rule 3: a waiting offset keeps its partition from expiring, and a fetch that asks for stable offsets
        (KIP-447) is refused, and the client retries.
Rule 4: the offsets of a topic are found without a look at those of others: there may be hundreds of
        thousands, and every topic that is deleted asks.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from uuid import UUID

from headrace.groups.effect import Producer
from headrace.groups.record import OffsetCommitRecord, StoredOffset
from headrace.model.ids import ProducerId, TopicPartition


def tombstone(group_id: str, where: TopicPartition) -> OffsetCommitRecord:
    """Return the record that deletes one offset."""
    return OffsetCommitRecord(
        group=group_id, topic=where.topic, partition=where.partition, value=None
    )


@dataclass(frozen=True, slots=True)
class _Entry:
    position: int
    offset: StoredOffset


_Offsets = dict[str, dict[TopicPartition, _Entry]]
"""Offsets by group and partition."""


class OffsetStore:
    """Committed offsets of one shard. Not for several threads."""

    def __init__(self) -> None:
        self._groups: _Offsets = {}
        self._waiting: dict[ProducerId, _Offsets] = {}
        # How many entries there are, committed and waiting, by topic, group and partition.
        self._counts: dict[str, dict[str, dict[int, int]]] = {}
        self._positions = count()

    def apply(self, record: OffsetCommitRecord, producer: Producer | None = None) -> None:
        """Apply one record that is in the log."""
        position = next(self._positions)
        where = TopicPartition(record.topic, record.partition)
        if record.value is None:
            self._remove(record.group, where)
            return
        entry = _Entry(position, record.value)
        if producer is None:
            self._put(self._groups, record.group, where, entry)
        else:
            waiting = self._waiting.setdefault(producer.producer_id, {})
            self._put(waiting, record.group, where, entry)

    def complete_transaction(self, producer_id: ProducerId, *, commit: bool) -> frozenset[str]:
        """Apply a marker and return the groups whose waiting offsets it decided."""
        waiting = self._waiting.pop(producer_id, {})
        for group_id, entries in waiting.items():
            for where, entry in entries.items():
                known = self._groups.get(group_id, {}).get(where)
                if commit and (known is None or known.position < entry.position):
                    self._put(self._groups, group_id, where, entry)
                self._uncount(group_id, where)
        return frozenset(waiting)

    def get(self, group_id: str, where: TopicPartition) -> StoredOffset | None:
        entry = self._groups.get(group_id, {}).get(where)
        return None if entry is None else entry.offset

    def of_group(self, group_id: str) -> Mapping[TopicPartition, StoredOffset]:
        return {where: entry.offset for where, entry in self._groups.get(group_id, {}).items()}

    def has_any(self, group_id: str) -> bool:
        return bool(self._groups.get(group_id)) or self.has_waiting(group_id)

    def has_waiting(self, group_id: str) -> bool:
        return any(group_id in groups for groups in self._waiting.values())

    def is_unstable(self, group_id: str, where: TopicPartition) -> bool:
        return any(where in groups.get(group_id, ()) for groups in self._waiting.values())

    def waiting_partitions(self, group_id: str) -> frozenset[TopicPartition]:
        return frozenset(
            where for groups in self._waiting.values() for where in groups.get(group_id, ())
        )

    def groups(self) -> Iterator[str]:
        """Return every group that has an offset, waiting ones included; each once."""
        seen = set(self._groups)
        for groups in self._waiting.values():
            seen.update(groups)
        return iter(seen)

    def topics(self) -> list[str]:
        """Return the topics that there are offsets of, waiting ones included."""
        return list(self._counts)

    def of_topic(self, topic: str) -> list[tuple[str, TopicPartition]]:
        """Return the group and the partition of each offset of a topic, waiting ones included."""
        return [
            (group_id, TopicPartition(topic, partition))
            for group_id, partitions in self._counts.get(topic, {}).items()
            for partition in partitions
        ]

    def topic_ids(self, group_id: str, where: TopicPartition) -> set[UUID]:
        """Return the ids of the topics that a group's offsets of a partition were committed for,
        the waiting ones too."""
        return {
            groups[group_id][where].offset.topic_id for groups in self._holding(group_id, where)
        }

    def tombstones(self, group_id: str) -> list[OffsetCommitRecord]:
        """Return the records that delete every offset of a group, the waiting ones too."""
        partitions = self.waiting_partitions(group_id).union(self._groups.get(group_id, ()))
        return [tombstone(group_id, where) for where in sorted(partitions)]

    def _remove(self, group_id: str, where: TopicPartition) -> None:
        """Remove an offset, and waiting ones too: the group or the topic is gone."""
        emptied = False
        for groups in self._holding(group_id, where):
            entries = groups[group_id]
            del entries[where]
            if not entries:
                del groups[group_id]
            emptied = emptied or not groups
            self._uncount(group_id, where)
        if emptied:
            self._waiting = {id_: groups for id_, groups in self._waiting.items() if groups}

    def _holding(self, group_id: str, where: TopicPartition) -> list[_Offsets]:
        """Return where a partition has an offset of the group: committed, or in transactions."""
        left = self._counts.get(where.topic, {}).get(group_id, {}).get(where.partition, 0)
        found: list[_Offsets] = []
        for groups in (self._groups, *self._waiting.values()):
            if len(found) == left:
                break
            if where in groups.get(group_id, ()):
                found.append(groups)
        return found

    def _put(self, groups: _Offsets, group_id: str, where: TopicPartition, entry: _Entry) -> None:
        entries = groups.setdefault(group_id, {})
        if where not in entries:
            counts = self._counts.setdefault(where.topic, {}).setdefault(group_id, {})
            counts[where.partition] = counts.get(where.partition, 0) + 1
        entries[where] = entry

    def _uncount(self, group_id: str, where: TopicPartition) -> None:
        groups = self._counts[where.topic]
        partitions = groups[group_id]
        partitions[where.partition] -= 1
        if not partitions[where.partition]:
            del partitions[where.partition]
        if not partitions:
            del groups[group_id]
        if not groups:
            del self._counts[where.topic]
