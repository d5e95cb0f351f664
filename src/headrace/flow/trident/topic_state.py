"""A state in Spark's checkpoint, whose values go to a compacted topic."""

from dataclasses import dataclass

from headrace.flow.storm.sink import TopicSink


@dataclass(frozen=True, slots=True)
class TopicState:
    """The totals are Spark's; each batch's new ones are records of the topic, in the transaction of
    the batch, so that its readers see every batch once. Built-in measures are aggregated by Spark
    itself where the chain allows it.

    Args:
        topic: best a compacted one, which `headrace flow run --create-topics` makes.
        key: the field that is the record's key; the first of the group by default.

    Example:
        words.group_by("word").persistent_aggregate(TopicState("counts"), n="count")
    """

    topic: str
    key: str | None = None


class StateSink(TopicSink):
    """Writes new values; the last one of each key is what matters."""

    topic_config = {"cleanup.policy": "compact"}  # noqa: RUF012 - never changed
