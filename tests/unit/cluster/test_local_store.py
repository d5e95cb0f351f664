"""The local store: the contract of all stores, and what its two files survive."""

import errno
from pathlib import Path

import pytest

from headrace.cluster.journal import JournalPut, encode_frame, encode_snapshot
from headrace.cluster.local_store import JOURNAL_NAME, SNAPSHOT_NAME, LocalStore
from headrace.cluster.store import CreateNode, DeleteNode, Node, UpdateNode
from headrace.log.filesystem import Disk
from headrace.model.error import CorruptLog, InvalidArgument, LogDirectoryOffline, StorageError
from testkit.fault.crash_disk import CrashDisk
from testkit.fault.disk_fault import Fault
from testkit.simulation.cluster_store_contract import ClusterStoreContract

HERE = Path("/data/cluster")


class TestContract(ClusterStoreContract):
    @pytest.fixture
    def store(self, tmp_path):
        store = LocalStore.open(Disk(), tmp_path / "cluster")
        yield store
        store.close()


@pytest.fixture
def disk():
    return CrashDisk()


def contents(store):
    return {node.path: (node.data, node.version) for node in store.scan("topics")}


class TestReopening:
    def test_everything_is_there_again(self, tmp_path):
        store = LocalStore.open(Disk(), tmp_path)
        store.commit([CreateNode("/topics/a", b"1"), CreateNode("/topics/b", b"2")])
        store.commit([UpdateNode("/topics/a", b"3", 0), DeleteNode("/topics/b")])
        store.close()

        again = LocalStore.open(Disk(), tmp_path)

        assert contents(again) == {"/topics/a": (b"3", 1)}
        assert again.commit([UpdateNode("/topics/a", b"4", 1)]) == [2]
        again.close()

    def test_ephemeral_nodes_are_gone(self, disk):
        store = LocalStore.open(disk, HERE)
        store.commit([CreateNode("/brokers/1", b"", ephemeral=True), CreateNode("/topics/a", b"")])
        store.close()

        again = LocalStore.open(disk, HERE)

        assert again.scan("brokers") == []
        assert len(again.scan("topics")) == 1

    def test_an_ephemeral_node_never_touches_the_disk(self, disk):
        store = LocalStore.open(disk, HERE)

        store.commit([CreateNode("/brokers/1", b"", ephemeral=True)])
        store.commit([UpdateNode("/brokers/1", b"x", 0)])

        assert store.get("/brokers/1") == Node("/brokers/1", b"x", 1, ephemeral=True)
        assert disk.size(HERE / JOURNAL_NAME) == 0

    def test_a_closed_store_takes_no_changes(self, disk):
        store = LocalStore.open(disk, HERE)
        store.close()

        with pytest.raises(InvalidArgument, match="closed"):
            store.commit([CreateNode("/topics/a", b"")])


class TestFolding:
    def test_a_long_journal_becomes_a_snapshot(self, disk):
        store = LocalStore.open(disk, HERE)
        store.commit([CreateNode("/topics/a", b"")])
        for number in range(12):
            store.commit([UpdateNode("/topics/a", bytes([number]) * 100_000)])
        store.close()

        assert disk.size(HERE / JOURNAL_NAME) < 500_000
        assert disk.exists(HERE / SNAPSHOT_NAME)
        assert contents(LocalStore.open(disk, HERE)) == {"/topics/a": (b"\x0b" * 100_000, 12)}

    def test_a_fold_that_fails_loses_nothing(self, disk):
        store = LocalStore.open(disk, HERE)
        store.commit([CreateNode("/topics/a", b"")])
        disk.inject(Fault(errno.ENOSPC, lambda call: SNAPSHOT_NAME in call.path.name, times=None))
        for number in range(12):
            store.commit([UpdateNode("/topics/a", bytes([number]) * 100_000)])
        store.close()

        assert contents(LocalStore.open(disk.fork(), HERE)) == {
            "/topics/a": (b"\x0b" * 100_000, 12)
        }

    def test_the_work_stays_in_proportion(self, disk):
        """10,000 topics one by one: the bytes written grow with their number, not its square."""
        store = LocalStore.open(disk, HERE)
        data = bytes(300)
        written = []
        for number in range(10_000):
            before = disk.size(HERE / JOURNAL_NAME)
            store.commit([CreateNode(f"/topics/{number}", data)])
            if disk.size(HERE / JOURNAL_NAME) < before:
                written.append(disk.size(HERE / SNAPSHOT_NAME))

        assert len(store.scan("topics")) == 10_000
        assert sum(written) < 3 * 10_000 * (len(data) + 40)


class TestDamage:
    def fill(self, disk, commits=3):
        store = LocalStore.open(disk, HERE)
        for number in range(commits):
            store.commit([CreateNode(f"/topics/{number}", b"data")])
        store.close()
        return disk.read_bytes(HERE / JOURNAL_NAME)

    def rewrite(self, disk, content, name=JOURNAL_NAME):
        disk.write_atomically(HERE / name, content)

    @pytest.mark.parametrize("cut", range(1, 40, 3))
    def test_a_torn_last_commit_is_cut_off(self, disk, cut):
        journal = self.fill(disk)
        self.rewrite(disk, journal[:-cut])

        store = LocalStore.open(disk, HERE)

        assert set(contents(store)) == {"/topics/0", "/topics/1"}
        store.commit([CreateNode("/topics/9", b"")])
        store.close()
        assert set(contents(LocalStore.open(disk, HERE))) == {
            "/topics/0",
            "/topics/1",
            "/topics/9",
        }

    def test_zeros_behind_the_last_commit_are_cut_off(self, disk):
        self.rewrite(disk, self.fill(disk) + bytes(4096))

        assert len(contents(LocalStore.open(disk, HERE))) == 3

    def test_a_damaged_middle_is_an_error(self, disk):
        journal = bytearray(self.fill(disk))
        journal[30] ^= 1
        self.rewrite(disk, bytes(journal))

        with pytest.raises(CorruptLog, match="follows behind it"):
            LocalStore.open(disk, HERE)

    def test_commits_of_the_snapshot_may_lie_behind_a_torn_one(self, disk):
        """The journal was emptied after the fold; the crash undid that, and not what followed."""
        old = self.fill(disk)
        snapshot = encode_snapshot(3, [JournalPut(f"/topics/{n}", b"data", 0) for n in range(3)])
        self.rewrite(disk, snapshot, SNAPSHOT_NAME)
        torn = encode_frame(4, [JournalPut("/topics/4", b"data", 0)])[:30]
        self.rewrite(disk, torn + old[30:])

        store = LocalStore.open(disk, HERE)

        assert set(contents(store)) == {"/topics/0", "/topics/1", "/topics/2"}
        assert disk.size(HERE / JOURNAL_NAME) == 0

    def test_a_missing_commit_is_an_error(self, disk):
        self.rewrite(disk, self.fill(disk) + encode_frame(9, []))

        with pytest.raises(CorruptLog, match="commits are missing"):
            LocalStore.open(disk, HERE)

    def test_a_damaged_snapshot_is_an_error(self, disk):
        self.fill(disk)
        self.rewrite(disk, b"HRS1" + bytes(50), SNAPSHOT_NAME)

        with pytest.raises(CorruptLog, match="snapshot"):
            LocalStore.open(disk, HERE)


class TestFailingDisk:
    def test_a_full_disk_refuses_the_commit_and_the_store_goes_on(self, disk):
        store = LocalStore.open(disk, HERE)
        store.commit([CreateNode("/topics/a", b"1")])
        disk.inject(Fault(errno.ENOSPC, lambda call: call.name == "pwritev", written_bytes=20))

        with pytest.raises(StorageError, match="cannot be written"):
            store.commit([CreateNode("/topics/b", b"2")])

        assert store.get("/topics/b") is None
        store.commit([CreateNode("/topics/c", b"3")])
        store.close()
        assert set(contents(LocalStore.open(disk, HERE))) == {"/topics/a", "/topics/c"}

    def test_after_a_failed_sync_nothing_is_written_any_more(self, disk):
        store = LocalStore.open(disk, HERE)
        store.commit([CreateNode("/topics/a", b"1")])
        disk.inject(Fault(errno.EIO, lambda call: call.name == "sync"))

        with pytest.raises(StorageError, match="cannot be synced"):
            store.commit([CreateNode("/topics/b", b"2")])
        with pytest.raises(LogDirectoryOffline, match="a sync failed"):
            store.commit([CreateNode("/topics/c", b"3")])

        assert set(contents(store)) == {"/topics/a"}

    def test_a_watcher_hears_nothing_of_a_commit_that_failed(self, disk):
        store = LocalStore.open(disk, HERE)
        heard = []
        store.watch("topics", lambda path, node: heard.append(path))
        disk.inject(Fault(errno.EIO, lambda call: call.name == "sync"))

        with pytest.raises(StorageError):
            store.commit([CreateNode("/topics/b", b"2")])

        assert heard == []

    def test_a_directory_that_cannot_be_opened_says_where(self, disk):
        disk.inject(Fault(errno.EACCES, lambda call: call.name == "create"))

        with pytest.raises(StorageError, match="/data/cluster cannot be opened"):
            LocalStore.open(disk, HERE)


def test_other_users_of_the_machine_cannot_read_the_files(tmp_path: Path) -> None:
    def modes() -> set[int]:
        return {each.stat().st_mode & 0o777 for each in tmp_path.iterdir()}

    snapshot = tmp_path / SNAPSHOT_NAME
    store = LocalStore.open(Disk(), tmp_path)
    number = 0
    while not snapshot.exists():
        store.put(f"/topics/{number}", b"x" * 500_000, None)
        number += 1
    assert modes() == {0o600}
    store.close()
    for each in tmp_path.iterdir():
        each.chmod(0o644)  # as earlier versions wrote them

    LocalStore.open(Disk(), tmp_path).close()

    assert modes() == {0o600}
