"""Task outputs in files of the driver's machine."""

import os
import pickle
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest

from headrace.model.error import HeadraceError
from headrace.model.ids import TopicPartition
from headrace.records.encode import encode
from headrace.spark.sink.staging_folder import (
    StagedFile,
    StagingFolder,
    StagingLost,
    WriteEnded,
    read_staged,
)

TARGETS = [TopicPartition("clicks", each) for each in (0, 1, 0)]


def batches() -> list[tuple[TopicPartition, memoryview]]:
    return [
        (target, encode(pa.record_batch({"value": [f"v{at}" * 50]}), timestamp_ms=0).batches[0])
        for at, target in enumerate(TARGETS)
    ]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StagingFolder:
    monkeypatch.setenv("SPARK_LOCAL_DIRS", f"{tmp_path}/missing,{tmp_path}")
    created = StagingFolder.create()
    assert created is not None
    return pickle.loads(pickle.dumps(created))


def staged(folder: StagingFolder) -> StagedFile:
    file = folder.file()
    assert file is not None
    file.write(batches()[:1])
    file.write(batches()[1:])
    file.close()
    return file.contents


def test_batches_come_back_in_order_and_may_be_changed(folder: StagingFolder) -> None:
    written = staged(folder)

    for _ in range(2):
        found = list(read_staged(written))
        assert [(target, bytes(batch.data)) for target, batch in found] == [
            (target, bytes(data)) for target, data in batches()
        ]
        found[0][1].data[:8] = b"changed!"

    folder.delete()
    folder.delete()
    with pytest.raises(StagingLost, match="cannot be read again"):
        list(read_staged(written))


def test_only_this_user_may_enter(folder: StagingFolder) -> None:
    path = staged(folder).path

    assert Path(folder.path).stat().st_mode & 0o777 == 0o700
    assert Path(path).stat().st_mode & 0o777 == 0o600
    assert folder.token not in path


def test_another_machine_has_no_such_token(folder: StagingFolder, tmp_path: Path) -> None:
    (tmp_path / "other" / "sink").mkdir(parents=True)
    elsewhere = StagingFolder(f"{tmp_path}/other/sink", folder.token)

    assert elsewhere.file() is None
    (tmp_path / "other" / "headrace-token").write_text("another one")
    assert elsewhere.file() is None
    assert list((tmp_path / "other" / "sink").iterdir()) == []


def test_a_task_that_outlives_its_write_stages_nothing(
    folder: StagingFolder, tmp_path: Path
) -> None:
    later = StagingFolder.create()
    assert later is not None
    assert later.token == folder.token

    folder.delete()

    with pytest.raises(WriteEnded):
        folder.file()
    assert staged(later).batches
    later.delete()
    assert [each.name for each in tmp_path.iterdir()] == ["headrace-token"]


def test_a_folder_that_is_closed_to_a_task_is_not_used(
    folder: StagingFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(**_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("tempfile.mkstemp", refuse)

    assert folder.file() is None


def test_a_task_of_another_user_uses_the_topic(
    folder: StagingFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    another = os.geteuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: another)

    assert folder.file() is None
    assert list(Path(folder.path).iterdir()) == []
    folder.delete()
    with pytest.raises(WriteEnded):
        folder.file()


def test_there_is_no_folder_where_spark_names_no_directory(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("SPARK_LOCAL_DIRS", raising=False)
    assert StagingFolder.create() is None
    monkeypatch.setenv("SPARK_LOCAL_DIRS", f"{tmp_path}/missing")
    assert StagingFolder.create() is None


@pytest.mark.parametrize("damage", ["cut", "bit"])
def test_a_damaged_file_is_not_sent(folder: StagingFolder, damage: str) -> None:
    written = staged(folder)
    data = bytearray(Path(written.path).read_bytes())
    data[-1] ^= 1
    Path(written.path).write_bytes(data[:-1] if damage == "cut" else data)

    with pytest.raises(HeadraceError):
        list(read_staged(written))


def test_an_eighth_of_the_disk_stays_free(
    folder: StagingFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = folder.file()
    assert file is not None
    nearly_full = SimpleNamespace(f_frsize=1, f_blocks=8_000, f_bavail=1_400)
    monkeypatch.setattr(os, "fstatvfs", lambda _: nearly_full)

    with pytest.raises(OSError, match="too little of the disk"):
        file.write(batches())
    file.close()

    assert file.contents.batches == []
