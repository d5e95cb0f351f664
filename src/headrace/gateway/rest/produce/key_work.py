"""What it takes to choose the partitions of records by their keys.

The hash is computed in Python: about 0.1 ms per KiB of keys. So the event loop does it only for few
bytes.
"""

from collections.abc import Sequence
from typing import Final

from headrace.client.write.partitioner import KEPT_KEY_BYTES, partition_of
from headrace.gateway.rest.produce.record import Record

QUICK_KEY_BYTES: Final = 4 << 10
QUICK_KEYS: Final = 400


def long_key_bytes(records: Sequence[Record]) -> int:
    """Return how many bytes of long keys are to be hashed. Hashes of short keys are kept.

    >>> long_key_bytes([Record(b"short", b"v"), Record(bytes(5000), b"v")])
    5000
    """
    return sum(
        len(each.key)
        for each in records
        if each.key is not None and len(each.key) > KEPT_KEY_BYTES and each.partition is None
    )


def choose_partitions(records: Sequence[Record], total: int) -> list[Record]:
    """Return records with the partitions that their keys choose, in a topic of so many.

    >>> [found] = choose_partitions([Record(b"alice", b"v")], 6)
    >>> found.partition
    3
    """
    return [
        each
        if each.key is None or each.partition is not None
        else each._replace(partition=partition_of(each.key, total))
        for each in records
    ]
