"""The fast path of an append does what the slow path does, to the byte."""

from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.log.log_directory import LogDirectory
from headrace.log.partition.appended import Appended
from headrace.log.partition.partition_log import PartitionLog
from headrace.model.clock import ManualClock
from headrace.model.error import HeadraceError
from headrace.model.ids import TopicPartition
from headrace.model.topic_config import LogConfig
from testkit.fault.crash_disk import CrashDisk
from testkit.sample.batch import SAMPLE_TIME_MS, sample_batch

CLICKS = TopicPartition("clicks", 0)
FOLDER = Path("/data")

configs = st.builds(
    LogConfig,
    segment_bytes=st.sampled_from([300, 1000, 2**30]),
    segment_ms=st.sampled_from([1, 1000, 10**9]),
    segment_index_bytes=st.sampled_from([24, 60, 10_485_760]),
    index_interval_bytes=st.sampled_from([0, 100, 4096]),
    max_message_bytes=st.sampled_from([100, 1_048_588]),
    message_timestamp_type=st.sampled_from(["CreateTime", "CreateTime", "LogAppendTime"]),
    message_timestamp_before_max_ms=st.sampled_from([2**63 - 1, 2**63 - 1, 10]),
    cleanup_policy=st.sampled_from([("delete",), ("delete",), ("compact",)]),
)


@st.composite
def batches(draw: st.DrawFn) -> bytes:
    values = draw(st.lists(st.binary(max_size=60), min_size=1, max_size=3))
    numbered = draw(st.booleans())
    batch = bytearray(
        sample_batch(
            *values,
            timestamp_ms=draw(
                st.sampled_from([-1, SAMPLE_TIME_MS - 5000, SAMPLE_TIME_MS, SAMPLE_TIME_MS + 10**8])
            ),
            step_ms=draw(st.sampled_from([0, 3])),
            producer_id=9 if numbered else -1,
            producer_epoch=0 if numbered else -1,
            sequence=draw(st.integers(0, 4)) if numbered else -1,
            transactional=numbered and draw(st.booleans()),
        )
    )
    if draw(st.sampled_from([False, False, False, True])):
        batch[draw(st.integers(0, len(batch) - 1))] ^= 1 << draw(st.integers(0, 7))
    return bytes(batch[: draw(st.sampled_from([len(batch), len(batch), len(batch), 40]))])


def outcome(log: PartitionLog, records: bytes | memoryview, epoch: int) -> Appended | str:
    try:
        return log.append(records, epoch)
    except HeadraceError as error:
        return f"{type(error).__name__}: {error}"


def plain_outcome(log: PartitionLog, records: bytes, epoch: int) -> Appended | str:
    """Append as the broker's fast path of Produce does: bytes, and by the slow path if declined."""
    try:
        appended = log.append_plain(records, epoch)
    except HeadraceError as error:
        return f"{type(error).__name__}: {error}"
    return outcome(log, records, epoch) if appended is None else appended


class Place:
    """A log in a directory of its own, on a disk in memory."""

    def __init__(self, config: LogConfig) -> None:
        self._disk = CrashDisk()
        self._directory = LogDirectory.open(
            FOLDER,
            configs=lambda _: config,
            clock=ManualClock(),
            filesystem=self._disk,
            # When a segment is synced decides when the next one begins.
            background=False,
        )
        self.log = self._directory.create(CLICKS)

    def content(self) -> dict[str, bytes]:
        """Close the log, and return its files. Which snapshots of producers a flush has written
        already, and which it has pruned, is a matter of time."""
        self._directory.close()
        folder = FOLDER / str(CLICKS)
        return {
            name: self._disk.read_bytes(folder / name)
            for name in self._disk.list(folder)
            if name.endswith((".log", ".index", ".timeindex", ".txnindex"))
        }


@settings(deadline=None)
@given(
    config=configs,
    appended=st.lists(st.tuples(batches(), st.sampled_from([0, 0, 0, 1, 2, -1])), max_size=12),
)
def test_the_fast_path_leaves_the_same_bytes_and_results_as_the_slow_path(
    config: LogConfig, appended: list[tuple[bytes, int]]
) -> None:
    fast, plain, slow = Place(config), Place(config), Place(config)
    highest = 0
    for records, epoch in appended:
        epoch = max(epoch, highest) if epoch >= 0 else epoch
        highest = max(epoch, highest)

        # `append` takes the fast path only for a view, as the handler of Produce has it.
        expected = outcome(slow.log, records, epoch)
        assert outcome(fast.log, memoryview(records), epoch) == expected
        assert plain_outcome(plain.log, records, epoch) == expected
        assert_same(fast.log, slow.log)
        assert_same(plain.log, slow.log)

    assert fast.content() == plain.content() == slow.content()


def assert_same(one: PartitionLog, other: PartitionLog) -> None:
    assert one.log_end_offset == other.log_end_offset
    assert one.epochs.entries == other.epochs.entries
    assert list(one.producer_entries()) == list(other.producer_entries())


def copied(log: PartitionLog, records: bytes | memoryview) -> Appended | str:
    try:
        return log.append_as_follower(records)
    except HeadraceError as error:
        return f"{type(error).__name__}: {error}"


@settings(deadline=None)
@given(
    config=configs,
    appended=st.lists(st.tuples(batches(), st.sampled_from([0, 0, 0, 1, 2])), max_size=12),
    spoiled=st.integers(0, 60),
)
def test_the_fast_path_of_a_copy_leaves_the_same_bytes_as_the_slow_path(
    config: LogConfig, appended: list[tuple[bytes, int]], spoiled: int
) -> None:
    leader, fast, slow = (Place(config) for _ in range(3))
    highest = 0
    for number, (records, epoch) in enumerate(appended):
        highest = max(epoch, highest)
        end = leader.log.log_end_offset
        if isinstance(outcome(leader.log, records, highest), str):
            continue
        stored = leader.log.read(end, 1 << 20, max_offset=leader.log.log_end_offset).read()
        batch = bytearray(stored)
        if number == 3 and spoiled < len(batch):
            batch[spoiled] ^= 1

        assert copied(fast.log, memoryview(bytes(batch))) == copied(slow.log, bytes(batch))
        assert_same(fast.log, slow.log)

    leader.content()
    assert fast.content() == slow.content()
