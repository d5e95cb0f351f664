"""A folder of this machine: what is read, replaced and removed."""

from pathlib import Path

import pytest

from headrace.flow.storage.file_store import LocalFileStore, numbered


@pytest.fixture
def store(tmp_path: Path) -> LocalFileStore:
    return LocalFileStore(tmp_path / "folder")


def test_a_folder_need_not_exist(store: LocalFileStore) -> None:
    assert not store.exists()
    assert (store.names("offsets"), store.find("*/*")) == ([], [])
    with pytest.raises(FileNotFoundError):
        store.read("a")
    store.remove("a")


def test_a_file_is_replaced_and_its_checksum_goes(store: LocalFileStore, tmp_path: Path) -> None:
    store.write("offsets/7", b"old")
    (tmp_path / "folder" / "offsets" / ".7.crc").write_bytes(b"sum")

    store.write("offsets/7", b"new")

    assert store.read("offsets/7") == b"new"
    assert store.names("offsets") == ["7"]


def test_files_are_found_and_removed(store: LocalFileStore) -> None:
    for name in ("date=1/hour=2/b.parquet", "date=1/hour=2/a.parquet", "other.parquet"):
        store.write(name, b"")

    found = store.find("date=*/hour=*/*.parquet")
    assert found == ["date=1/hour=2/a.parquet", "date=1/hour=2/b.parquet"]

    store.remove("date=1")
    assert store.names() == ["other.parquet"]


def test_spark_names_files_by_the_number_of_a_batch() -> None:
    assert numbered(["0", "12", ".0.crc", "1.compact"]) == {0, 12}


def test_a_removal_is_durable(store: LocalFileStore, monkeypatch: pytest.MonkeyPatch) -> None:
    store.write("inactive", b"")
    synced: list[Path] = []
    monkeypatch.setattr("headrace.flow.storage.file_store._sync", synced.append)

    store.remove("inactive")
    store.remove("inactive")

    assert synced == [Path(store.text)]
