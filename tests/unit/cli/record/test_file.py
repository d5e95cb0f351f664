"""Records written to a file come back as they were, whatever they hold."""

import json
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.cli.record.field import BadFile, NotText
from headrace.cli.record.file import open_writer, read_records
from headrace.cli.record.file_format import FieldFormat, FileFormat
from headrace.model.error import InvalidArgument
from headrace.model.ids import TopicPartition
from headrace.records.column import HEADERS, TIMESTAMP

CLICKS = TopicPartition("clicks", 3)
BYTES = st.none() | st.binary(max_size=30)
TEXT = st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=30).map(str.encode)
HEADER = st.fixed_dictionaries({"key": st.text(max_size=5), "value": BYTES})
TIMES = st.integers(-1, 2**53)


def records(content: st.SearchStrategy[bytes | None]) -> st.SearchStrategy[list[Any]]:
    row = st.tuples(TIMES, content, content, st.lists(HEADER, max_size=3))
    return st.lists(row, min_size=1, max_size=15)


def columns(rows: list[Any]) -> pa.RecordBatch:
    times, keys, values, headers = zip(*rows, strict=True)
    return pa.record_batch(
        {
            "offset": pa.array(range(7, 7 + len(rows)), pa.int64()),
            "timestamp": pa.array(times, pa.int64()).cast(TIMESTAMP),
            "key": pa.array(keys, pa.binary()),
            "value": pa.array(values, pa.binary()),
            "headers": pa.array(headers, HEADERS),
        }
    )


def written(path: Path, kind: FileFormat, rows: list[Any], how: FieldFormat | None = None) -> Path:
    with closing(open_writer(path, kind, how, how)) as writer:
        writer.write(CLICKS, columns(rows))
    return path


def read(path: Path, kind: FileFormat) -> list[Any]:
    """Return the rows of a file, as `records` makes them."""
    done: list[int] = []
    found: list[Any] = []
    for table in read_records(path, kind, done.append):
        # Not every number of milliseconds is a time that Python knows.
        times = table["timestamp"].cast(pa.int64()).to_pylist()
        named = table.drop_columns(["timestamp"]).to_pydict()
        assert set(named.pop("partition")) <= {3}
        headers = named.get("headers", [[]] * len(times))
        found += zip(times, named["key"], named["value"], headers, strict=True)
    assert sum(done) == path.stat().st_size
    return [
        (time, key, value, [dict(each) for each in headers or ()])
        for time, key, value, headers in found
    ]


@pytest.mark.parametrize("kind", FileFormat)
@settings(deadline=None, max_examples=30)
@given(rows=records(BYTES))
def test_bytes_come_back(kind: FileFormat, rows: list[Any]) -> None:
    how = FieldFormat.BASE64 if kind is not FileFormat.PARQUET else None
    with TemporaryDirectory() as folder:
        path = written(Path(folder, "file"), kind, rows, how)

        assert read(path, kind) == rows


@pytest.mark.parametrize("kind", [FileFormat.CSV, FileFormat.JSONL])
@settings(deadline=None, max_examples=30)
@given(rows=records(TEXT))
def test_text_comes_back(kind: FileFormat, rows: list[Any]) -> None:
    with TemporaryDirectory() as folder:
        path = written(Path(folder, "file"), kind, rows)

        assert read(path, kind) == rows


@settings(deadline=None, max_examples=30)
@given(rows=records(BYTES))
def test_json_lines_hold_any_bytes_without_an_option(rows: list[Any]) -> None:
    with TemporaryDirectory() as folder:
        path = written(Path(folder, "file"), FileFormat.JSONL, rows)

        assert read(path, FileFormat.JSONL) == rows


@pytest.mark.parametrize("kind", [FileFormat.CSV, FileFormat.JSONL])
def test_json_stays_json(tmp_path: Path, kind: FileFormat) -> None:
    rows = [(0, b'"k"', b'{"a": [1,\n 2.5, null]}', []), (1, None, b"null", [])]

    path = written(tmp_path / "file", kind, rows, FieldFormat.JSON)

    assert [(key, value) for _, key, value, _ in read(path, kind)] == [
        (b'"k"', b'{"a":[1,2.5,null]}'),
        (None, b"null"),
    ]


def test_a_json_value_stands_in_json_lines_as_what_it_is(tmp_path: Path) -> None:
    rows = [(5, None, b'{"a": 1}', [])]

    path = written(tmp_path / "file", FileFormat.JSONL, rows, FieldFormat.JSON)

    assert json.loads(path.read_text()) == {
        "partition": 3,
        "offset": 7,
        "timestamp": 5,
        "key": None,
        "value_json": {"a": 1},
    }


def test_bytes_that_are_no_text_are_named(tmp_path: Path) -> None:
    rows = [(0, None, b"fine", []), (0, None, b"\xff", [])]

    with pytest.raises(NotText, match=r"value at offset 8 of clicks-3 .* --value-format base64"):
        written(tmp_path / "file", FileFormat.CSV, rows)


@pytest.mark.parametrize("text", [b"{", b"[" * 30_000])
def test_text_that_is_no_json_is_named(tmp_path: Path, text: bytes) -> None:
    rows = [(0, None, text, [])]

    with pytest.raises(NotText, match="value at offset 7 of clicks-3 is no JSON"):
        written(tmp_path / "file", FileFormat.JSONL, rows, FieldFormat.JSON)


def test_parquet_has_strings_on_request_and_nothing_else(tmp_path: Path) -> None:
    path = written(tmp_path / "file", FileFormat.PARQUET, [(0, b"k", b"v", [])], FieldFormat.TEXT)
    assert pq.read_schema(path).field("value").type == pa.string()

    with pytest.raises(InvalidArgument, match="leave --key-format out"):
        open_writer(tmp_path / "other", FileFormat.PARQUET, FieldFormat.BASE64, None)


def test_what_others_write_is_read_too(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('name,value,timestamp\nx,hello,2026-07-01T12:00:00Z\n,"",\n')
    (tmp_path / "a.jsonl").write_text('{"value": {"a": 1}}\n\n{"value": "text", "colour": "red"}')

    [from_csv] = read_records(tmp_path / "a.csv", FileFormat.CSV, int)
    [from_json] = read_records(tmp_path / "a.jsonl", FileFormat.JSONL, int)

    assert from_csv["value"].to_pylist() == [b"hello", b""]
    assert from_csv["timestamp"].cast(pa.int64()).to_pylist() == [1_782_907_200_000, None]
    assert from_json["value"].to_pylist() == [b'{"a":1}', b"text"]


@pytest.mark.parametrize(
    ("kind", "content", "words"),
    [
        (FileFormat.JSONL, '{"value": "a"}\nnothing', "line 2 of .* is no JSON"),
        (FileFormat.JSONL, '{"key": "a"}', 'line 1 of .*: a record is written as {"key"'),
        (FileFormat.JSONL, '{"value_base64": "%"}', "'%' is no base64"),
        (FileFormat.JSONL, '{"value": "a", "partition": "x"}', "partition is a whole number"),
        (FileFormat.JSONL, '{"value": "a", "headers": {"a": 1}}', "headers are written as"),
        (FileFormat.CSV, "colour\nred\n", "there is no column value, value_base64 or value_json"),
        (FileFormat.CSV, "value,partition\na,b\n", "cannot be read as CSV"),
        (FileFormat.CSV, 'value,headers\na,"[1"\n', "headers are a list in JSON"),
        (FileFormat.CSV, "", "cannot be read as CSV"),
        (FileFormat.PARQUET, "PAR", "cannot be read as Parquet"),
    ],
)
def test_what_is_no_record_is_named(
    tmp_path: Path, kind: FileFormat, content: str, words: str
) -> None:
    path = tmp_path / "file"
    path.write_text(content)

    with pytest.raises(BadFile, match=words):
        list(read_records(path, kind, int))
