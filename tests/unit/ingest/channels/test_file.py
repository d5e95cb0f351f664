"""The file channel: the contract, and what survives."""

import errno
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from threading import Event as Signal

import pytest

from headrace.ingest.channel import Channel
from headrace.ingest.channels.event_log import EventLog
from headrace.ingest.channels.file import FileChannel
from headrace.ingest.channels.file_frame import decode_put, encode_put
from headrace.ingest.error import ChannelError, ChannelFull
from headrace.ingest.event import Event, EventBatch
from headrace.ingest.settings import Settings
from headrace.model.error import ConfigError, CorruptLog, LogDirectoryLocked
from headrace.testing.channel_contract import BoundedChannelContract, drain, fill
from testkit.fault.crash_disk import CrashDisk
from testkit.fault.disk_fault import Fault

SMALL = {"capacity": "100", "transactionCapacity": "10", "keep-alive": "0"}


def file_channel(folder: Path, disk: CrashDisk | None = None, **texts: str) -> FileChannel:
    written = {"dataDirs": str(folder), "minimumRequiredSpace": "0", **SMALL, **texts}
    channel = FileChannel("c1", Settings.from_texts(FileChannel.SETTINGS, written), disk)
    channel.start()
    return channel


class TestFileChannel(BoundedChannelContract):
    @pytest.fixture
    def channel(self, tmp_path: Path) -> Iterator[Channel]:
        channel = file_channel(tmp_path)
        yield channel
        channel.stop()


def test_events_are_there_after_a_restart_with_headers_and_in_order(tmp_path: Path) -> None:
    channel = file_channel(tmp_path)
    events = [Event({"n": str(n)}, b"%d" % n) for n in range(9)]
    with channel.begin() as transaction:
        transaction.put(EventBatch.of(events))
    with channel.begin() as transaction:
        transaction.take(3)
    channel.stop()
    channel = file_channel(tmp_path)
    assert channel.size == 6
    with channel.begin() as transaction:
        assert list(transaction.take(10)) == events[3:]
    channel.stop()


def test_takes_without_a_commit_are_repeated_after_a_restart(tmp_path: Path) -> None:
    channel = file_channel(tmp_path)
    fill(channel, [b"1", b"2"])
    channel.begin().take(2)
    channel.stop()
    channel = file_channel(tmp_path)
    assert drain(channel) == [b"1", b"2"]
    channel.stop()


def test_segments_without_events_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.ingest.channels.file._TRIM_SECONDS", 0)
    channel = file_channel(tmp_path, maxFileSize=str(1 << 20))
    for _ in range(12):
        fill(channel, [b"x" * 100_000] * 5)
        drain(channel)
    assert len(list((tmp_path / "events-0").glob("*.log"))) <= 2
    channel.stop()
    channel = file_channel(tmp_path)
    assert drain(channel) == []
    channel.stop()


def test_events_that_do_not_fit_in_memory_are_read_from_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.ingest.channels.file._CACHE_BYTES", 10)
    channel = file_channel(tmp_path)
    bodies = [b"body %d" % n for n in range(10)]
    fill(channel, bodies)
    with channel.begin() as transaction:
        assert transaction.take(4).bodies == bodies[:4]
    assert drain(channel) == bodies[4:]
    channel.stop()


def two_folders(folder: Path, disk: CrashDisk | None = None, **texts: str) -> FileChannel:
    return file_channel(folder, disk, dataDirs=f"{folder}/one, {folder}/two", **texts)


def test_events_are_spread_over_all_folders_and_come_in_order_after_a_restart(
    tmp_path: Path,
) -> None:
    channel = two_folders(tmp_path)
    for number in range(9):
        fill(channel, [b"%d" % number])
    with channel.begin() as transaction:
        assert transaction.take(4).bodies == [b"0", b"1", b"2", b"3"]
    channel.stop()
    stored = [
        sum(path.stat().st_size for path in (tmp_path / each).rglob("*.log"))
        for each in ("one", "two")
    ]
    assert min(stored) > 0
    channel = two_folders(tmp_path)
    assert drain(channel) == [b"4", b"5", b"6", b"7", b"8"]
    channel.stop()


def test_a_folder_can_be_added_to_a_channel_that_holds_events(tmp_path: Path) -> None:
    channel = file_channel(tmp_path / "one")
    fill(channel, [b"0"])
    fill(channel, [b"1"])
    channel.stop()
    for bodies in ([b"2"], [b"3"], [b"4"]):
        channel = two_folders(tmp_path)
        fill(channel, bodies)
        channel.stop()
    channel = two_folders(tmp_path)
    assert drain(channel) == [b"0", b"1", b"2", b"3", b"4"]
    channel.stop()


@pytest.mark.parametrize("failure", [errno.ENOSPC, errno.EIO])
def test_a_failed_folder_is_skipped_while_another_one_works(failure: int) -> None:
    disk = CrashDisk()
    channel = two_folders(Path("/c"), disk)
    fault = Fault(
        failure, lambda call: call.name == "pwritev" and "/c/one" in str(call), times=None
    )
    disk.inject(fault)
    bodies = [b"%d" % number for number in range(6)]
    for body in bodies:
        put_with_retry(channel, body)
    assert drain(channel) == bodies
    disk.faults.remove(fault)
    channel.stop()


def put_with_retry(channel: FileChannel, body: bytes) -> None:
    """Put an event with one retry, as a source does: only the first failure of a disk is raised."""
    try:
        fill(channel, [body])
    except ChannelError:
        fill(channel, [body])


def test_a_put_that_is_not_in_the_queue_yet_is_not_trimmed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its record is in the log, its sync takes long, and later puts are taken meanwhile."""
    monkeypatch.setattr("headrace.ingest.channels.file._TRIM_SECONDS", 0)
    channel = file_channel(tmp_path, maxFileSize=str(1 << 20))
    syncing, may_end = Signal(), Signal()
    sync = EventLog.sync

    def slow_once(log: EventLog, offset: int) -> None:
        if offset == 0:
            syncing.set()
            assert may_end.wait(60)
        sync(log, offset)

    monkeypatch.setattr(EventLog, "sync", slow_once)
    with ThreadPoolExecutor(1) as thread:
        slow = thread.submit(fill, channel, [b"x" * 900_000])
        assert syncing.wait(60)
        for _ in range(3):
            fill(channel, [b"y" * 900_000])
            drain(channel)
        may_end.set()
        slow.result()
    channel.stop()
    channel = file_channel(tmp_path, maxFileSize=str(1 << 20))
    assert drain(channel) == [b"x" * 900_000]
    channel.stop()


def test_a_directory_that_another_channel_has_is_refused(tmp_path: Path) -> None:
    channel = file_channel(tmp_path)
    with pytest.raises(LogDirectoryLocked):
        file_channel(tmp_path)
    channel.stop()


def test_a_disk_that_is_nearly_full_refuses_and_keeps_what_is_there(tmp_path: Path) -> None:
    channel = file_channel(tmp_path, minimumRequiredSpace=str(2**62))
    with pytest.raises(ChannelFull, match="bytes left, and minimumRequiredSpace is"):
        fill(channel, [b"no"])
    assert channel.size == 0
    channel.stop()


def encrypted(folder: Path, keys: str, active: str) -> FileChannel:
    (folder / "keys").write_text(keys)
    texts = {"encryption.keyFile": str(folder / "keys"), "encryption.activeKey": active}
    return file_channel(folder / "data", **texts)


FIRST, SECOND = f"one = {'0f' * 32}\n", f"two = {'f0' * 16}\n"


def test_events_can_be_encrypted_and_keys_changed(tmp_path: Path) -> None:
    channel = encrypted(tmp_path, FIRST, "one")
    fill(channel, [b"a secret"])
    channel.stop()
    channel = encrypted(tmp_path, FIRST + SECOND, "two")
    fill(channel, [b"another secret"])
    channel.stop()
    stored = b"".join(path.read_bytes() for path in tmp_path.rglob("*.log"))
    assert b"secret" not in stored
    channel = encrypted(tmp_path, FIRST + SECOND, "two")
    assert drain(channel) == [b"a secret", b"another secret"]
    channel.stop()


def test_a_wrong_key_is_an_error_and_no_empty_channel(tmp_path: Path) -> None:
    channel = encrypted(tmp_path, FIRST, "one")
    fill(channel, [b"a secret"])
    channel.stop()
    with pytest.raises(CorruptLog, match="is it the right key file"):
        encrypted(tmp_path, f"one = {'00' * 32}\n", "one")


@pytest.mark.parametrize(
    ("keys", "active", "message"),
    [
        (FIRST, "three", "'three' is not in"),
        ("one = short\n", "one", "line 1: write 'name = key'"),
        ("one\n", "one", "line 1: write 'name = key'"),
    ],
)
def test_keys_that_cannot_be_used(tmp_path: Path, keys: str, active: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        encrypted(tmp_path, keys, active)


def test_a_key_store_of_java_s_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"encryption\.keyFile is missing"):
        file_channel(tmp_path, **{"encryption.activeKey": "k"})


def test_an_invalid_frame_is_corrupt() -> None:
    good = encode_put(EventBatch([b"a", b"b"], [{}, {"x": "y"}]))
    for cut in range(len(good)):
        with pytest.raises(CorruptLog):
            decode_put(good[:cut])


def test_a_full_disk_refuses_and_later_accepts_again() -> None:
    disk = CrashDisk()
    channel = file_channel(Path("/c"), disk)
    fill(channel, [b"safe"])
    disk.inject(Fault(errno.ENOSPC, lambda call: call.name == "pwritev", written_bytes=20))
    with pytest.raises(ChannelFull, match="there is no room on the disk"):
        fill(channel, [b"no"])
    fill(channel, [b"yes"])
    assert drain(channel) == [b"safe", b"yes"]
    channel.stop()


def test_a_take_that_a_full_disk_refuses_is_not_delivered_again_and_written_later() -> None:
    disk = CrashDisk()
    channel = file_channel(Path("/c"), disk)
    fill(channel, [b"1", b"2", b"3"])
    fault = Fault(errno.ENOSPC, lambda call: call.name == "pwritev", times=None)
    disk.inject(fault)
    with channel.begin() as transaction:
        assert transaction.take(1).bodies == [b"1"]
    with channel.begin() as transaction:
        assert transaction.take(1).bodies == [b"2"]
    disk.faults.remove(fault)
    channel.stop()
    channel = file_channel(Path("/c"), disk)
    assert drain(channel) == [b"3"]
    channel.stop()


def test_a_broken_disk_refuses_everything_until_a_restart_finds_what_was_safe() -> None:
    disk = CrashDisk()
    channel = file_channel(Path("/c"), disk)
    fill(channel, [b"safe"])
    disk.inject(Fault(errno.EIO, lambda call: call.name == "sync"))
    for _ in range(2):
        with pytest.raises(ChannelError):
            fill(channel, [b"no"])
    channel.stop()
    disk.crash(Random(1))
    channel = file_channel(Path("/c"), disk)
    assert drain(channel)[:1] == [b"safe"]
    channel.stop()


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("folder", [Path("/c"), Path("/c /d")], ids=["one folder", "two folders"])
def test_a_power_loss_loses_nothing_that_was_committed(seed: int, folder: Path) -> None:
    """Random histories on a disk that forgets what was not synced."""
    dice = Random(seed)
    disk = CrashDisk()
    next_number = 0
    committed: list[bytes] = []
    taken: list[bytes] = []
    for _ in range(4):
        channel = file_channel(folder, disk, maxFileSize=str(1 << 20))
        for _ in range(dice.randrange(12)):
            if dice.random() < 0.6:
                bodies = [
                    b"%d" % number
                    for number in range(next_number, next_number + dice.randrange(1, 9))
                ]
                next_number += len(bodies)
                transaction = channel.begin()
                transaction.put(EventBatch.plain(bodies))
                if dice.random() < 0.2:
                    transaction.rollback()
                else:
                    transaction.commit()
                    committed += bodies
            else:
                transaction = channel.begin()
                batch = transaction.take(dice.randrange(1, 9))
                if dice.random() < 0.3:
                    transaction.rollback()
                else:
                    transaction.commit()
                    taken += batch.bodies
        disk.crash(dice)
    channel = file_channel(folder, disk)
    left = drain(channel)
    channel.stop()
    assert set(taken) | set(left) == set(committed)
    assert len(left) == len(set(left)), "events were repeated within the channel"
