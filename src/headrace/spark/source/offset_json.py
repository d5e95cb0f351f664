"""Offsets as JSON, in the form that Spark's Kafka connector uses in checkpoints and options:
`{"clicks": {"0": 23, "1": 345}}`.

Topics and partitions are sorted, because Spark compares the texts of two offsets to decide whether
there are new records. A checkpoint of the connector is read too: it differs in blanks, and has no
ids of topics (`topic_ids`), which costs one empty micro-batch.
"""

import json
from collections.abc import Mapping
from typing import Any

from headrace.model.ids import TopicPartition
from headrace.spark.option_text import wrong

_OFFSETS_EXAMPLE = 'write it as {"clicks":{"0":23,"1":-2}}'
_PARTITIONS_EXAMPLE = 'write it as {"clicks":[0,1]}'
_LONG_MAX = 2**63 - 1

Offsets = dict[TopicPartition, int]


def dump_offsets(offsets: Mapping[TopicPartition, int]) -> dict[str, dict[str, int]]:
    """Return the dictionary that Spark converts to JSON.

    >>> dump_offsets({TopicPartition("clicks", 1): 5, TopicPartition("clicks", 0): 3})
    {'clicks': {'0': 3, '1': 5}}
    """
    found: dict[str, dict[str, int]] = {}
    for each in sorted(offsets):
        found.setdefault(each.topic, {})[str(each.partition)] = offsets[each]
    return found


def load_offsets(shape: Mapping[str, Mapping[str, int]]) -> Offsets:
    """Return the offsets of a dictionary that Spark read from a checkpoint."""
    return {
        TopicPartition(topic, int(partition)): int(offset)
        for topic, partitions in shape.items()
        for partition, offset in partitions.items()
    }


def read_offsets(name: str, text: str) -> Offsets:
    """Parse what a user wrote as the option `name`.

    Raises:
        ConfigError: the text is no JSON of this form.
    """
    found: Offsets = {}
    for topic, partitions in _topics(name, text, _OFFSETS_EXAMPLE).items():
        if not isinstance(partitions, dict):
            raise wrong(name, text, _OFFSETS_EXAMPLE)
        for partition, offset in partitions.items():
            if not (partition.isascii() and partition.isdigit() and _is_long(offset)):
                raise wrong(name, text, _OFFSETS_EXAMPLE)
            found[TopicPartition(topic, int(partition))] = offset
    return found


def read_partitions(name: str, text: str) -> list[TopicPartition]:
    """Parse partitions of topics, as the option `assign` has them: `{"clicks": [0, 1]}`."""
    found = []
    for topic, partitions in _topics(name, text, _PARTITIONS_EXAMPLE).items():
        if not isinstance(partitions, list):
            raise wrong(name, text, _PARTITIONS_EXAMPLE)
        for partition in partitions:
            if not _is_long(partition) or partition < 0:
                raise wrong(name, text, _PARTITIONS_EXAMPLE)
            found.append(TopicPartition(topic, partition))
    return sorted(set(found))


def _topics(name: str, text: str, example: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or not found:
        raise wrong(name, text, example)
    return found


def _is_long(value: object) -> bool:
    return type(value) is int and -_LONG_MAX <= value <= _LONG_MAX
