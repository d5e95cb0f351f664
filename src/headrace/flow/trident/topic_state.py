"""A state in Spark's checkpoint, whose values go to a compacted topic."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TopicState:
    """The totals are Spark's; each batch's new ones are records of the topic, in the transaction of
    the batch, so that its readers see every batch once. Built-in measures are aggregated by Spark
    itself where the chain allows it.

    Args:
        topic: compacted, for readers that only want the last value of each key.
        key: the field that is the record's key; the first of the group by default.

    Example:
        words.group_by("word").persistent_aggregate(TopicState("counts"), n="count")
    """

    topic: str
    key: str | None = None
