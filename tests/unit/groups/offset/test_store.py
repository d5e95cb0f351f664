from headrace.groups.effect import Producer
from headrace.groups.offset.store import OffsetStore, tombstone
from headrace.groups.record import OffsetCommitRecord, StoredOffset
from headrace.model.ids import ProducerEpoch, ProducerId, TopicPartition

WHERE = TopicPartition("t", 0)
PRODUCER = Producer(ProducerId(7), ProducerEpoch(0))


def commit(offset: int, group: str = "g") -> OffsetCommitRecord:
    value = StoredOffset(offset=offset, commit_timestamp_ms=0)
    return OffsetCommitRecord(group=group, topic="t", partition=0, value=value)


def position(store: OffsetStore) -> int | None:
    committed = store.get("g", WHERE)
    return None if committed is None else committed.offset


def test_last_commit_counts() -> None:
    store = OffsetStore()

    store.apply(commit(1))
    store.apply(commit(2))

    assert position(store) == 2


def test_transactional_commit_waits_for_its_marker() -> None:
    store = OffsetStore()
    store.apply(commit(1))

    store.apply(commit(2), PRODUCER)
    before = position(store)
    unstable = store.is_unstable("g", WHERE)
    decided = store.complete_transaction(PRODUCER.producer_id, commit=True)

    assert (before, unstable, decided) == (1, True, {"g"})
    assert position(store) == 2
    assert not store.is_unstable("g", WHERE)


def test_abort_drops_what_waits() -> None:
    store = OffsetStore()
    store.apply(commit(1))
    store.apply(commit(2), PRODUCER)

    store.complete_transaction(PRODUCER.producer_id, commit=False)

    assert position(store) == 1
    assert not store.has_waiting("g")


def test_order_in_the_log_decides_between_a_transaction_and_a_plain_commit() -> None:
    store = OffsetStore()
    store.apply(commit(5), PRODUCER)
    store.apply(commit(6))

    store.complete_transaction(PRODUCER.producer_id, commit=True)

    assert position(store) == 6


def test_transactions_of_two_producers_are_apart() -> None:
    store = OffsetStore()
    other = Producer(ProducerId(8), ProducerEpoch(0))
    store.apply(commit(5), PRODUCER)
    store.apply(commit(6), other)

    store.complete_transaction(other.producer_id, commit=True)
    store.complete_transaction(PRODUCER.producer_id, commit=True)

    assert position(store) == 6


def test_tombstone_deletes_the_offset_and_what_waits() -> None:
    store = OffsetStore()
    store.apply(commit(1))
    store.apply(commit(2), PRODUCER)

    store.apply(tombstone("g", WHERE))
    store.complete_transaction(PRODUCER.producer_id, commit=True)

    assert position(store) is None
    assert not store.has_any("g")
    assert list(store.groups()) == []


def test_marker_without_offsets_does_nothing() -> None:
    assert OffsetStore().complete_transaction(ProducerId(1), commit=True) == frozenset()


def test_group_with_only_waiting_offsets_is_a_group() -> None:
    store = OffsetStore()

    store.apply(commit(1), PRODUCER)

    assert store.has_any("g")
    assert list(store.groups()) == ["g"]
    assert store.tombstones("g") == [tombstone("g", WHERE)]
