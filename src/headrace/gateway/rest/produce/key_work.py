"""What it takes to choose the partitions of records by their keys.

The hash is computed in Python: about 0.1 ms per KiB of keys. So the event loop does it only for few
bytes.
"""

from collections.abc import Sequence
from typing import Final

from headrace.client.write.partitioner import KEPT_KEY_BYTES, partition_of
from headrace.gateway.rest.produce.record import Record

QUICK_KEYS: Final = 400

_QUICK_BYTES: Final = 4 << 10


def has_quick_keys(records: Sequence[Record]) -> bool:
    """Return whether the keys that choose partitions are few, and few of their bytes in long ones.
    The hashes of short keys are kept.

    >>> has_quick_keys([Record(b"short", b"v")]), has_quick_keys([Record(bytes(5000), b"v")])
    (True, False)
    """
    sizes = [len(each.key) for each in records if each.key is not None and each.partition is None]
    return len(sizes) <= QUICK_KEYS and (
        sum(each for each in sizes if each > KEPT_KEY_BYTES) <= _QUICK_BYTES
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
