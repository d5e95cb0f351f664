"""A shard's share per second."""

from headrace.gateway.kinesis.limit.shard_limits import ShardLimits

MIB = 1 << 20


def test_a_thousand_records_per_second() -> None:
    limits = ShardLimits()

    passed = [limits.allows_put("s", 0, 10, now=100.0) for _ in range(1100)]

    assert sum(passed) == 1000
    assert limits.allows_put("s", 1, 10, now=100.0), "another shard has its own share"
    assert limits.allows_put("s", 0, 10, now=100.01)


def test_a_mebibyte_per_second() -> None:
    limits = ShardLimits()

    passed = [limits.allows_put("s", 0, MIB // 4, now=5.0) for _ in range(6)]

    assert sum(passed) == 4
    assert not limits.allows_put("s", 0, MIB // 4, now=5.2)
    assert limits.allows_put("s", 0, MIB // 4, now=5.3)


def test_a_record_above_the_rate_passes_and_is_paid_off() -> None:
    limits = ShardLimits()

    assert limits.allows_put("s", 0, 10 * MIB, now=0.0)
    assert not limits.allows_put("s", 0, 1, now=8.9)
    assert limits.allows_put("s", 0, 1, now=9.1)


def test_five_reads_and_two_mebibytes_per_second() -> None:
    limits = ShardLimits()

    assert [limits.allows_read("s", 0, now=1.0) for _ in range(6)] == [True] * 5 + [False]
    assert limits.allows_read("s", 0, now=1.21)
    limits.count_read("s", 0, 10 * MIB, now=1.21)
    assert not limits.allows_read("s", 0, now=5.0)
    assert limits.allows_read("s", 0, now=5.3)


def test_without_limits_everything_passes() -> None:
    limits = ShardLimits(enabled=False)

    assert all(limits.allows_put("s", 0, MIB, now=0.0) for _ in range(2000))
    assert all(limits.allows_read("s", 0, now=0.0) for _ in range(10))
