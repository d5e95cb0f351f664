"""Which pairs of offsets are written as offset syncs."""

from headrace.mirror.format.offset_sync import OffsetSync
from headrace.mirror.process.offset_syncs import OffsetSyncs
from headrace.model.ids import TopicPartition

PARTITION = TopicPartition("clicks", 0)


def pairs(*numbers: int, shift: int = 1000) -> list[tuple[int, int]]:
    return [(number, number + shift) for number in numbers]


def drained(syncs: OffsetSyncs) -> list[tuple[int, int]]:
    return [(each.upstream_offset, each.offset) for each in syncs.drain()]


def test_the_first_record_and_every_hundredth_get_a_sync() -> None:
    syncs = OffsetSyncs(100)

    syncs.copied(PARTITION, pairs(0, 49, 50, 99, 100, 149, 150, 199, 200))

    assert drained(syncs) == pairs(0, 100, 200)
    assert drained(syncs) == []


def test_a_large_transaction_gets_few() -> None:
    syncs = OffsetSyncs(100)

    syncs.copied(PARTITION, pairs(*range(0, 100_000, 10)))

    assert len(drained(syncs)) <= 18


def test_syncs_of_an_earlier_process_come_before_those_of_this_one() -> None:
    syncs = OffsetSyncs(100)
    syncs.copied(PARTITION, pairs(500))

    syncs.restore([OffsetSync(PARTITION, 10, 1010), OffsetSync(PARTITION, 300, 1300)])

    assert syncs.translate(PARTITION, 300) == 1300
    assert syncs.translate(PARTITION, 501) == 1501
    assert syncs.translate(PARTITION, 5) is None


def test_syncs_that_could_not_be_written_are_kept_in_order() -> None:
    syncs = OffsetSyncs(0)
    syncs.copied(PARTITION, pairs(1, 2))
    failed = syncs.drain()
    syncs.copied(PARTITION, pairs(3))

    syncs.put_back(failed)

    assert drained(syncs) == pairs(1, 2, 3)


def test_a_topic_that_was_created_again_begins_with_a_sync() -> None:
    """Until the new log outgrew the old one, offsets were translated into the old one."""
    syncs = OffsetSyncs(100)
    syncs.copied(PARTITION, pairs(5000))
    syncs.drain()

    syncs.copied(PARTITION, pairs(0, 1, shift=0))

    assert drained(syncs)[0] == (0, 0)
    assert syncs.translate(PARTITION, 0) == 0
