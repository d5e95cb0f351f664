"""Which partition of `__consumer_offsets` a group lives in."""

from headrace.model.error import InvalidArgument


def shard_of(group_id: str, shard_count: int) -> int:
    """Return the partition that holds a group: by Java's hash of its id, as in Kafka.

    >>> shard_of("my-group", 50)
    12
    """
    if shard_count < 1:
        raise InvalidArgument(f"__consumer_offsets has at least one partition, not {shard_count}")
    units = group_id.encode("utf-16-be", "surrogatepass")
    value = 0
    for high, low in zip(units[::2], units[1::2], strict=True):
        value = (31 * value + (high << 8 | low)) & 0xFFFFFFFF
    signed = value - 2**32 if value >= 2**31 else value
    # Java has no positive number for -2**31; Kafka takes 0.
    return 0 if signed == -(2**31) else abs(signed) % shard_count
