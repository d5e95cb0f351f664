"""meta.properties: whose directory this is."""

from pathlib import Path
from uuid import UUID

import pytest

from headrace.log.meta_properties import MetaProperties
from headrace.model.error import CorruptLog
from headrace.model.ids import BrokerId
from testkit.fault.crash_disk import CrashDisk

DATA = Path("/data")
DIRECTORY_ID = UUID("f47ac10b-58cc-4372-a567-0e02b2c3d479")
OURS = MetaProperties(
    node_id=BrokerId(7), cluster_id="MkU3OEVBNTcwNTJENDM2Qg", directory_id=DIRECTORY_ID
)


def test_a_new_directory_has_none(disk: CrashDisk) -> None:
    assert MetaProperties.read(disk, DATA) is None


def test_it_is_written_as_version_1(disk: CrashDisk) -> None:
    OURS.write(disk, DATA)
    assert disk.read_bytes(DATA / "meta.properties").decode().splitlines() == [
        "version=1",
        "node.id=7",
        "cluster.id=MkU3OEVBNTcwNTJENDM2Qg",
        "directory.id=9HrBC1jMQ3KlZw4CssPUeQ",
    ]


@pytest.mark.parametrize("cluster_id", ["MkU3OEVBNTcwNTJENDM2Qg", "a=b:c#d!e\\f"])
def test_what_was_written_reads_back(disk: CrashDisk, cluster_id: str) -> None:
    ours = MetaProperties(node_id=BrokerId(7), cluster_id=cluster_id, directory_id=DIRECTORY_ID)
    ours.write(disk, DATA)
    assert MetaProperties.read(disk, DATA) == ours


def test_kafkas_comments_and_order_do_not_matter(disk: CrashDisk) -> None:
    disk.write_atomically(
        DATA / "meta.properties",
        b"#\n#Sun Nov 15 03:21:22 UTC 2026\ncluster.id=MkU3OEVBNTcwNTJENDM2Qg\nversion=1\n"
        b"directory.id=9HrBC1jMQ3KlZw4CssPUeQ\nnode.id=7\n",
    )
    assert MetaProperties.read(disk, DATA) == OURS


def test_version_0_calls_the_node_a_broker(disk: CrashDisk) -> None:
    disk.write_atomically(DATA / "meta.properties", b"version=0\nbroker.id=3\ncluster.id=old\n")
    assert MetaProperties.read(disk, DATA) == MetaProperties(
        version=0, node_id=BrokerId(3), cluster_id="old"
    )


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"", "version must be 0 or 1"),
        (b"version=2\n", "version must be 0 or 1"),
        (b"version=1\nnode.id=1\n", "needs node.id and cluster.id"),
        (b"version=1\nnode.id=one\ncluster.id=c\n", "node.id must be a whole number"),
        (b"version=1\nnode.id=1\ncluster.id=c\ndirectory.id=x\n", "'x' is not a UUID"),
        (b"version 1\n", "is not a property"),
    ],
)
def test_garbage_is_named(disk: CrashDisk, content: bytes, what: str) -> None:
    disk.write_atomically(DATA / "meta.properties", content)
    with pytest.raises(CorruptLog, match=what):
        MetaProperties.read(disk, DATA)


@pytest.mark.parametrize(
    "content",
    [b"version=0\nbroker.id=3\ncluster.id=old\n", b"version=1\nnode.id=3\ncluster.id=old\n"],
)
def test_a_directory_of_an_earlier_release_gets_an_id_and_keeps_its_version(
    disk: CrashDisk, content: bytes
) -> None:
    disk.write_atomically(DATA / "meta.properties", content)

    claimed = MetaProperties.claim(disk, DATA, 3, "old")

    assert claimed.directory_id is not None
    assert disk.read_bytes(DATA / "meta.properties").startswith(content)
    assert MetaProperties.claim(disk, DATA, 3, "old") == claimed


def test_a_full_disk_keeps_no_directory_of_an_earlier_release_from_being_read(
    disk: CrashDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = b"version=1\nnode.id=3\ncluster.id=old\n"
    disk.write_atomically(DATA / "meta.properties", content)

    def refuse(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(disk, "write_atomically", refuse)

    assert MetaProperties.claim(disk, DATA, 3, "old").directory_id is None
