"""How much a transaction may hold, by what the target took lately."""

from headrace.mirror.process.transaction_limit import TransactionLimit

SECONDS = 2.0


def limit_after(bytes_per_second: float, transactions: int = 20) -> TransactionLimit:
    """Return the limit after full transactions to a target of this speed."""
    limit = TransactionLimit()
    for _ in range(transactions):
        limit.committed(limit.size_bytes, limit.size_bytes / bytes_per_second)
    return limit


def test_a_quick_target_gets_large_transactions() -> None:
    assert limit_after(100e6).size_bytes == 32 << 20


def test_a_slow_target_ends_each_transaction_in_time() -> None:
    for speed in (1e6, 200e3, 20e3):
        limit = limit_after(speed)

        assert limit.size_bytes / speed <= SECONDS * 1.01


def test_small_transactions_say_nothing_about_the_target() -> None:
    limit = limit_after(100e6)

    limit.committed(1000, seconds=0.01)

    assert limit.size_bytes == 32 << 20


def test_a_target_that_becomes_slow_is_noticed_and_one_that_recovers_too() -> None:
    limit = limit_after(100e6)

    limit.committed(limit.size_bytes, seconds=25.0)
    slow = limit.size_bytes
    limit.committed(limit.size_bytes, seconds=0.1)

    assert slow < 3 << 20
    assert limit.size_bytes == 4 * slow


def test_a_transaction_that_failed_is_not_tried_again_as_it_was() -> None:
    limit = TransactionLimit()
    sizes = []
    for _ in range(6):
        limit.failed()
        sizes.append(limit.size_bytes)

    assert sizes[0] < 1 << 20
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] == 16 << 10
