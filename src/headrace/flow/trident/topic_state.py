"""A state in Spark's checkpoint, whose values go to a compacted topic."""

from dataclasses import dataclass

from headrace.flow.storm.sink import TopicSink


@dataclass(frozen=True, slots=True)
class TopicState:
    """Keeps totals in Spark's checkpoint and writes new ones to a topic.

    They are written in the transaction of the batch, so that readers see every batch once. Spark
    itself aggregates built-in measures where the chain allows it.

    Args:
        topic: should be compacted; `headrace flow run --create-topics` creates it so.
        key: the field that is the record's key; the first of the group by default.

    Example:
        words.group_by("word").persistent_aggregate(TopicState("counts"), n="count")
    """

    topic: str
    key: str | None = None


class StateSink(TopicSink):
    """Writes new values to a compacted topic: only the last one of each key matters."""

    topic_config = {"cleanup.policy": "compact"}  # noqa: RUF012 - never changed
