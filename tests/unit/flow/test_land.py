"""Landing: its options, and the files that crashes left."""

import json
from pathlib import Path

import pytest

from headrace.flow.error import FlowError
from headrace.flow.land import LOG, Landing, logged_files, stray_files
from headrace.flow.storage.file_store import LocalFileStore


def landing(**options: str) -> Landing:
    return Landing(topics="clicks", brokers="b:9092", folder="lake", **options)  # type: ignore[arg-type]


def write_log(folder: Path, name: str, *files: Path, version: str = "v1") -> None:
    (folder / LOG).mkdir(exist_ok=True)
    lines = [json.dumps({"path": each.as_uri(), "size": 1, "action": "add"}) for each in files]
    (folder / LOG / name).write_text("\n".join([version, *lines]))


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    hour = tmp_path / "date=2026-11-15" / "hour=09"
    hour.mkdir(parents=True)
    made = [hour / f"part-{n} a.parquet" for n in range(4)]
    for each in made:
        each.touch()
    return made


def test_files_that_the_log_does_not_name_are_strays(tmp_path: Path, files: list[Path]) -> None:
    write_log(tmp_path, "0", files[0])
    write_log(tmp_path, "1", files[2])
    (tmp_path / LOG / ".1.crc").touch()

    assert stray_files(LocalFileStore(tmp_path)) == [
        each.relative_to(tmp_path).as_posix() for each in (files[1], files[3])
    ]


def test_a_compacted_log_replaces_the_logs_before_it(tmp_path: Path, files: list[Path]) -> None:
    write_log(tmp_path, "0", files[3])
    write_log(tmp_path, "1.compact", files[0], files[1])
    write_log(tmp_path, "2", files[2])

    assert list(logged_files(LocalFileStore(tmp_path))) == [str(each) for each in files[:3]]


def test_other_files_are_no_strays(tmp_path: Path, files: list[Path]) -> None:
    write_log(tmp_path, "0", *files)
    (tmp_path / "mine.parquet").touch()

    assert stray_files(LocalFileStore(tmp_path)) == []


def test_a_log_of_another_version_is_not_guessed_at(tmp_path: Path, files: list[Path]) -> None:
    write_log(tmp_path, "0", files[0], version="v9")

    with pytest.raises(FlowError, match="begins with 'v9'"):
        stray_files(LocalFileStore(tmp_path))


def test_an_unknown_format_and_missing_columns_are_reported() -> None:
    with pytest.raises(FlowError, match="a format cannot be 'yaml'"):
        landing(format="yaml")
    with pytest.raises(FlowError, match="json, csv and avro need columns"):
        landing(format="json")
    with pytest.raises(FlowError, match="raw and string have none"):
        landing(columns="a STRING")
