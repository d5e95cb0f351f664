"""Which partition of `__consumer_offsets` or `__transaction_state` an id belongs to."""

from functools import lru_cache

from headrace.model.error import InvalidArgument


# Every transactional Produce request asks.
@lru_cache(maxsize=1024)
def coordinator_partition(coordinated_id: str, partition_count: int) -> int:
    """Return the partition of a group id or a transactional id, as Kafka computes it.

    It is Java's `String.hashCode`, over UTF-16 units, so that Kafka's tools look in the same place.

    >>> coordinator_partition("console-consumer", 50)
    40
    """
    if partition_count < 1:
        raise InvalidArgument(f"a coordinator topic needs a partition, not {partition_count}")
    units = coordinated_id.encode("utf-16-be", "surrogatepass")
    hashed = 0
    for position in range(0, len(units), 2):
        unit = units[position] << 8 | units[position + 1]
        hashed = (hashed * 31 + unit) & 0xFFFFFFFF
    if hashed >= 2**31:
        hashed = 2**32 - hashed  # Java's abs; the one number it cannot negate counts as 0
    return 0 if hashed == 2**31 else hashed % partition_count
