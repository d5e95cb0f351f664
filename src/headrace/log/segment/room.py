"""How much room a segment has left."""

from pathlib import Path
from typing import NamedTuple
from zlib import crc32

from headrace.model.topic_config import LogConfig


class Room(NamedTuple):
    """Up to where batches go into a segment, by this configuration."""

    config: LogConfig
    size_bytes: int
    timestamp_ms: int
    last_offset: int


def roll_after_ms(config: LogConfig, path: Path) -> int:
    """Return how old a segment's first batch may get: up to segment.jitter.ms less than segment.ms,
    different for each segment and the same after a restart."""
    if config.segment_jitter_ms <= 0:
        return config.roll_ms
    bound = min(config.segment_jitter_ms, config.segment_ms)
    return config.roll_ms - crc32(str(path).encode()) % (bound + 1)
