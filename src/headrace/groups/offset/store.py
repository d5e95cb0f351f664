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


class OffsetStore:
    """Committed offsets of one shard. Not for several threads."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[TopicPartition, _Entry]] = {}
        self._waiting: dict[ProducerId, dict[str, dict[TopicPartition, _Entry]]] = {}
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
            self._groups.setdefault(record.group, {})[where] = entry
        else:
            waiting = self._waiting.setdefault(producer.producer_id, {})
            waiting.setdefault(record.group, {})[where] = entry

    def complete_transaction(self, producer_id: ProducerId, *, commit: bool) -> frozenset[str]:
        """Apply a marker and return the groups whose waiting offsets it decided."""
        waiting = self._waiting.pop(producer_id, {})
        if commit:
            for group_id, entries in waiting.items():
                committed = self._groups.setdefault(group_id, {})
                for where, entry in entries.items():
                    known = committed.get(where)
                    if known is None or known.position < entry.position:
                        committed[where] = entry
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

    def topic_ids(self, group_id: str) -> dict[TopicPartition, set[UUID]]:
        """Return the ids of the topics that a group's offsets were committed for, by partition, the
        waiting ones too."""
        ids: dict[TopicPartition, set[UUID]] = {}
        for groups in (self._groups, *self._waiting.values()):
            for where, entry in groups.get(group_id, {}).items():
                ids.setdefault(where, set()).add(entry.offset.topic_id)
        return ids

    def tombstones(self, group_id: str) -> list[OffsetCommitRecord]:
        """Return the records that delete every offset of a group, the waiting ones too."""
        partitions = self.waiting_partitions(group_id).union(self._groups.get(group_id, ()))
        return [tombstone(group_id, where) for where in sorted(partitions)]

    def _remove(self, group_id: str, where: TopicPartition) -> None:
        """Remove an offset, and waiting ones too: the group or the topic is gone."""
        self._drop(self._groups, group_id, where)
        for producer_id in list(self._waiting):
            waiting = self._waiting[producer_id]
            self._drop(waiting, group_id, where)
            if not waiting:
                del self._waiting[producer_id]

    @staticmethod
    def _drop(
        groups: dict[str, dict[TopicPartition, _Entry]], group_id: str, where: TopicPartition
    ) -> None:
        entries = groups.get(group_id)
        if entries is not None and entries.pop(where, None) is not None and not entries:
            del groups[group_id]
