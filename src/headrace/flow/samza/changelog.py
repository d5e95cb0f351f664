"""Restoring stores from their changelogs, for a start without Spark's checkpoint."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from headrace.flow.samza.store import KeyValueStore


@dataclass(frozen=True, slots=True)
class ChangelogRestore:
    """The changelogs to restore stores from, and where each ends.

    The ends are those of the moment when the checkpoint began (`CheckpointStart`): a first batch
    that Spark repeats must not restore its own changes.

    Attributes:
        client: how to reach the brokers.
        topics: the changelog of each store.
        ends: by store and partition.
    """

    client: Mapping[str, str] = field(default_factory=dict)
    topics: Mapping[str, str] = field(default_factory=dict)
    ends: Mapping[str, Mapping[int, int]] = field(default_factory=dict)


def restore(plan: ChangelogRestore, task: int, stores: Mapping[str, KeyValueStore]) -> None:
    """Fill a task's stores from their changelogs."""
    for name, ends in plan.ends.items():
        end = ends.get(task, 0)
        if end > 0:
            _read_back(plan.client, plan.topics[name], task, end, stores[name])


def _read_back(
    client: Mapping[str, str], topic: str, partition: int, end: int, store: KeyValueStore
) -> None:
    # Imported here: workers of a job without changelogs need no client.
    from headrace.client.read.read_range import ReadRange
    from headrace.client.read.reader import Reader
    from headrace.model.ids import TopicPartition

    ranges = {TopicPartition(topic, partition): ReadRange(end=end)}
    with Reader(client, ranges, columns=["key", "value"], read_committed=True) as reader:
        for chunk in reader:
            keys, values = (chunk.columns.column(each).to_pylist() for each in ("key", "value"))
            for key, value in zip(keys, values, strict=True):
                if key is not None:
                    store.put_bytes(key, value, logged=False)
