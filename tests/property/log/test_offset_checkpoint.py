"""Checkpoints: round trips over every legal topic name; garbage never escapes as another error."""

from contextlib import suppress
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.log.offset_checkpoint import OffsetCheckpoint
from headrace.model.error import CorruptLog
from headrace.model.ids import TopicPartition, topic_name_problem
from testkit.fault.crash_disk import CrashDisk

PATH = Path("/data/recovery-point-offset-checkpoint")
LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"
TOPICS = st.text(LETTERS, min_size=1, max_size=249).filter(lambda n: topic_name_problem(n) is None)
PARTITIONS = st.builds(TopicPartition, TOPICS, st.integers(0, 2**31 - 1))


def checkpoint(content: bytes | None = None) -> OffsetCheckpoint:
    disk = CrashDisk()
    disk.make_directory(PATH.parent)
    if content is not None:
        disk.write_atomically(PATH, content)
    return OffsetCheckpoint(disk, PATH)


@settings(deadline=None)
@given(st.dictionaries(PARTITIONS, st.integers(0, 2**63 - 1), max_size=20))
def test_what_is_written_reads_back(offsets: dict[TopicPartition, int]) -> None:
    written = checkpoint()
    written.write(offsets)
    assert written.read() == offsets


@settings(deadline=None)
@given(st.one_of(st.binary(max_size=60), st.text("01 \nab-²٣", max_size=40).map(str.encode)))
def test_garbage_is_read_or_refused_in_our_words(content: bytes) -> None:
    with suppress(CorruptLog):
        checkpoint(content).read()
