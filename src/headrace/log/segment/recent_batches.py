"""The newest batches of a segment, held in memory."""

from array import array
from typing import TypeAlias

# How many there are: a consumer at the tail is rarely further back, and 10,000 partitions of them
# stay at a few dozen MB.
RECENT_KEPT = 32
RECENT_MAX = 2 * RECENT_KEPT

Recent: TypeAlias = "tuple[array[int], array[int], array[int]]"
"""Last offsets, base offsets and positions."""


def no_recent() -> Recent:
    return array("q"), array("q"), array("i")
