"""Which partition of `__consumer_offsets` or `__transaction_state` an id belongs to."""

from functools import lru_cache
from struct import Struct

from headrace.model.error import InvalidArgument

# A record's key has an int16 length. Flexible requests can carry longer ids, up to megabytes, and
# the hash takes a step per character on the event loop.
_MAX_LENGTH = 2**15 - 1
_UNIT = Struct(">H")


# Every transactional Produce request asks.
@lru_cache(maxsize=1024)
def coordinator_partition(coordinated_id: str, partition_count: int) -> int:
    """Return the partition of a group id or a transactional id, as Kafka computes it.

    It is Java's `String.hashCode`, over UTF-16 units, so that Kafka's tools look in the same place.

    >>> coordinator_partition("console-consumer", 50)
    40

    Raises:
        InvalidArgument: the id is longer than the key of any record.
    """
    if len(coordinated_id) > _MAX_LENGTH:
        raise InvalidArgument(
            f"an id has at most {_MAX_LENGTH} characters, this has {len(coordinated_id)}"
        )
    if partition_count < 1:
        raise InvalidArgument(f"a coordinator topic needs a partition, not {partition_count}")
    hashed = 0
    for (unit,) in _UNIT.iter_unpack(coordinated_id.encode("utf-16-be", "surrogatepass")):
        hashed = (hashed * 31 + unit) & 0xFFFFFFFF
    if hashed >= 2**31:
        hashed = 2**32 - hashed  # Java's abs; the one number it cannot negate counts as 0
    return 0 if hashed == 2**31 else hashed % partition_count
