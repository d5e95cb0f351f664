"""How much room a segment has left."""

from typing import NamedTuple

from headrace.model.topic_config import LogConfig


class Room(NamedTuple):
    """Up to where batches go into a segment, by this configuration."""

    config: LogConfig
    size_bytes: int
    timestamp_ms: int
    last_offset: int
