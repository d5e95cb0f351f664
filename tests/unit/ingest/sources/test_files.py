"""The files source: Parquet and CSV files of a folder; S3 is in the interop tests."""

import gzip
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.ingest.error import ChannelError
from headrace.ingest.source import PollableSource
from headrace.ingest.sources.file_journal import FileJournal, FileProgress
from headrace.model.error import ConfigError
from testkit.sample.ingest_agent import RecordingProcessor, make, source_alone


class Folder:
    """A folder with files, each older than the one before."""

    def __init__(self, root: Path) -> None:
        self.root = root / "in"
        self.root.mkdir()
        self._journal = root / "journal.jsonl"
        self._age = 0

    def put(self, name: str, content: "bytes | pa.Table", rows_per_group: int = 3) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, bytes):
            path.write_bytes(content)
        else:
            pq.write_table(content, path, row_group_size=rows_per_group)
        self._age += 1
        os.utime(path, (1_700_000_000 + self._age, 1_700_000_000 + self._age))
        return path

    @contextmanager
    def source(self, **texts: str) -> Iterator[tuple[PollableSource, RecordingProcessor]]:
        written = {key.replace("__", "."): value for key, value in texts.items()}
        settings = {"path": str(self.root), "pollDelay": "0", **written}
        settings.setdefault("positionFile", str(self._journal))
        with source_alone("files", settings) as (source, got):
            assert isinstance(source, PollableSource)
            yield source, got

    def read(self, **texts: str) -> list[Any]:
        """Return the rows that a source delivers from its start to its stop."""
        with self.source(**texts) as (source, got):
            while source.poll():
                pass
            return [json.loads(body) for body in got.bodies]


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def numbers(count: int, start: int = 0) -> pa.Table:
    return pa.table({"id": list(range(start, start + count))})


def test_values_of_parquet_become_json(folder: Folder) -> None:
    row = {
        "at": datetime(2026, 1, 2, 3, 4, 5, 6),
        "price": Decimal("1.10"),
        "raw": b"\x00\xff",
        "tags": ["a", None],
    }
    table = pa.table({name: [value] for name, value in row.items()})
    nanos = pa.array([1_700_000_000_000_000_001], pa.timestamp("ns"))
    folder.put("a.parquet", table.append_column("nanos", nanos))
    assert folder.read() == [
        {
            "at": "2026-01-02T03:04:05.000006",
            "price": "1.10",
            "raw": "AP8=",
            "tags": ["a", None],
            "nanos": "2023-11-14T22:13:20",
        }
    ]


def test_each_file_is_read_once_and_the_oldest_first(folder: Folder) -> None:
    folder.put("z.parquet", numbers(10))
    folder.put("b.csv", b"id\n10\n11\n")
    found = folder.read(batchSize="4")
    assert [int(row["id"]) for row in found] == list(range(12))
    assert folder.read() == []
    folder.put("a.parquet", numbers(2, 12))
    assert [row["id"] for row in folder.read()] == [12, 13]


@pytest.mark.parametrize("name", ["a.parquet", "a.csv"])
@pytest.mark.parametrize("refused_at", [0, 1, 2, 3])
def test_reading_goes_on_at_the_row_that_was_not_delivered(
    folder: Folder, name: str, refused_at: int
) -> None:
    lines = "".join(f"{row}\n" for row in range(10))
    folder.put(name, numbers(10) if name == "a.parquet" else f"id\n{lines}".encode())
    with folder.source(batchSize="2") as (source, got):
        for _ in range(refused_at):
            source.poll()
        got.refusals = 1
        with pytest.raises(ChannelError):
            source.poll()
    first = [int(json.loads(body)["id"]) for body in got.bodies]
    rest = [int(row["id"]) for row in folder.read(batchSize="2")]
    assert first + rest == list(range(10))
    assert len(first) == len(set(first)) <= 2 * refused_at


def test_csv_has_quotes_line_feeds_and_rows_of_other_lengths(folder: Folder) -> None:
    folder.put("a.csv", b'\xef\xbb\xbfid;name\n1;"a;\n""b"""\n\n2\n3;c;d;e\n4;\xff\n')
    assert folder.read(csv__delimiter=";") == [
        {"id": "1", "name": 'a;\n"b"'},
        {"id": "2", "name": None},
        {"id": "3", "name": "c", "_rest": ["d", "e"]},
        {"id": "4", "name": "\ufffd"},
    ]


def test_compressed_csv_without_a_header(folder: Folder) -> None:
    folder.put("a.tsv.gz", gzip.compress(b"1\tx\n2\ty\n"))
    found = folder.read(csv__delimiter="\\t", csv__header="false")
    assert found == [{"c0": "1", "c1": "x"}, {"c0": "2", "c1": "y"}]


def test_headers_have_the_key_and_the_file(folder: Folder) -> None:
    path = folder.put("a.parquet", numbers(1, 7))
    with folder.source(keyColumns="id", fileHeader="true") as (source, got):
        source.poll()
    assert got.events[0].headers == {"key": "7", "file": str(path)}


def test_a_pattern_chooses_files_in_folders_below(folder: Folder) -> None:
    for name in ("top.csv", "2026/01/a.csv", "2026/02/b.csv", "2026/_tmp/c.csv", "2026/01/d.txt"):
        folder.put(name, f"name\n{name}\n".encode())
    assert [row["name"] for row in folder.read(pattern="2026/*/*.csv")] == [
        "2026/01/a.csv",
        "2026/02/b.csv",
    ]
    assert [row["name"] for row in folder.read(pattern="**/*.csv")] == ["top.csv"]


@pytest.mark.parametrize(("after", "left"), [("delete", []), ("move", ["done/x/a.csv"])])
def test_read_files_are_put_away(folder: Folder, after: str, left: list[str]) -> None:
    folder.put("x/a.csv", b"id\n1\n")
    texts = {"moveTo": "done"} if after == "move" else {}
    assert len(folder.read(pattern="**/*.csv", afterRead=after, **texts)) == 1
    files = [path for path in folder.root.rglob("*") if path.is_file()]
    assert [str(path.relative_to(folder.root)) for path in files] == left
    assert folder.read(pattern="**/*.csv", afterRead=after, **texts) == []


@pytest.mark.parametrize("after", ["delete", "move"])
def test_a_file_that_was_replaced_meanwhile_is_not_put_away(folder: Folder, after: str) -> None:
    folder.put("a.csv", b"id\n1\n")
    texts = {"moveTo": "done"} if after == "move" else {}
    with folder.source(afterRead=after, pollDelay="3600000", **texts) as (source, _):
        source.poll()
        path = folder.put("a.csv", b"id\n2\n")
        while source.poll():
            pass
    assert path.read_bytes() == b"id\n2\n"
    assert folder.read(afterRead=after, **texts) == [{"id": "2"}]
    assert not path.exists()


def test_moved_files_are_not_read_again(folder: Folder) -> None:
    folder.put("a.csv", b"id\n1\n")
    texts = {"pattern": "**/*.csv", "afterRead": "move", "moveTo": "./x//done/"}
    assert len(folder.read(**texts)) == 1
    assert folder.read(**texts) == []
    assert (folder.root / "x/done/a.csv").exists()


def test_moved_files_of_one_name_are_all_kept(folder: Folder) -> None:
    for number in range(3):
        folder.put("a.csv", f"id\n{number}\n".encode())
        assert len(folder.read(afterRead="move", moveTo="done")) == 1
    kept = sorted(path.read_text() for path in (folder.root / "done").iterdir())
    assert kept == ["id\n0\n", "id\n1\n", "id\n2\n"]


def test_a_file_of_the_same_name_is_another_one(folder: Folder) -> None:
    folder.put("a.csv", b"id\n1\n")
    assert len(folder.read()) == 1
    folder.put("a.csv", b"id\n2\n")
    assert folder.read() == [{"id": "2"}]


def test_a_file_that_changed_just_now_waits(folder: Folder) -> None:
    os.utime(folder.put("a.csv", b"id\n1\n"))
    assert folder.read(minAge="3600000") == []
    assert folder.read(minAge="0") == [{"id": "1"}]


def test_a_broken_file_does_not_stop_the_others(folder: Folder) -> None:
    broken = folder.put("a.parquet", b"PAR1 and then nothing")
    folder.put("b.parquet", numbers(1))
    with folder.source(afterRead="delete") as (source, got):
        while source.poll():
            pass
        assert source.counters["EventReadFail"] == 1
    assert len(got.bodies) == 1
    assert folder.read(afterRead="delete") == []
    assert broken.exists()


@pytest.mark.parametrize(
    "column",
    [
        pa.array([b"\xff"], pa.binary()).view(pa.string()),
        pa.array([253_402_300_800], pa.timestamp("s")),  # year 10000
    ],
    ids=["text", "time"],
)
def test_values_that_cannot_be_read_keep_the_file(folder: Folder, column: pa.Array) -> None:
    path = folder.put("a.parquet", pa.table({"bad": column}))
    with folder.source(afterRead="delete") as (source, _):
        while source.poll():
            pass
        assert source.counters["EventReadFail"] == 1
    assert path.exists()


def test_a_file_is_read_again_after_an_error_that_is_not_its_own(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = folder.put("a.parquet", numbers(2))
    with folder.source(afterRead="delete") as (source, got):
        with monkeypatch.context() as patch:
            patch.setattr("headrace.ingest.sources.files.row_json", out_of_memory)
            with pytest.raises(MemoryError):
                source.poll()
            assert path.exists()
        while source.poll():
            pass
    assert len(got.bodies) == 2


def out_of_memory(row: object) -> bytes:
    raise MemoryError


@pytest.mark.parametrize("left", [[], ["b.csv"]])
def test_files_that_one_listing_does_not_have_are_not_read_again(
    folder: Folder, tmp_path: Path, left: list[str]
) -> None:
    for name in ("a.csv", "b.csv"):
        folder.put(name, f"id\n{name}\n".encode())
    away = tmp_path / "away"
    away.mkdir()
    with folder.source() as (source, got):
        while source.poll():
            pass
        hidden = [path for path in folder.root.iterdir() if path.name not in left]
        for path in hidden:
            path.rename(away / path.name)
        source.poll()
        for path in hidden:
            (away / path.name).rename(path)
        while source.poll():
            pass
    assert len(got.bodies) == 2
    assert folder.read() == []


def test_a_file_is_forgotten_when_it_is_gone_for_a_day(tmp_path: Path) -> None:
    journal = FileJournal(lambda: tmp_path / "journal.jsonl")
    journal.files = dict.fromkeys(("a", "b", "c"), FileProgress("1:2", 3, True, 4))
    day = 24 * 3600.0
    journal.forget_missing(["a", "b"], 0.0)
    journal.forget_missing(["a"], day - 1)
    assert set(journal.files) == {"a", "b", "c"}
    journal.forget_missing([], 3 * day)
    journal.forget_missing(["a", "b"], day)
    assert set(journal.files) == {"a", "b"}


@pytest.mark.parametrize("content", [b"1" * 200, b'"' + b'\n","' * 40], ids=["line", "quotes"])
def test_a_row_without_an_end_does_not_fill_the_memory(
    folder: Folder, content: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.ingest.file.table_file._LONGEST_ROW", 100)
    folder.put("a.csv", b"id\n" + b"1\n" * 200 + content)
    with folder.source(batchSize="50") as (source, got):
        while source.poll():
            pass
        assert source.counters["EventReadFail"] == 1
    assert len(got.bodies) == 200


def test_the_journal_stays_small(folder: Folder, tmp_path: Path) -> None:
    folder.put("a.csv", b"id\n" + b"1\n" * 3000)
    assert len(folder.read(batchSize="1")) == 3000
    assert len((tmp_path / "journal.jsonl").read_text().splitlines()) < 1100


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ({"csv.delimiter": "||"}, "write one character"),
        ({"afterRead": "move"}, "moveTo goes with"),
        ({"moveTo": "x"}, "moveTo goes with"),
        ({"afterRead": "move", "moveTo": "../x"}, "no folder below path"),
        ({"afterRead": "move", "moveTo": "a/../../x"}, "no folder below path"),
        ({"afterRead": "move", "moveTo": "./"}, "no folder below path"),
    ],
)
def test_settings_that_cannot_be_meant(texts: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make("source", "files", {"path": "/tmp", **texts})
