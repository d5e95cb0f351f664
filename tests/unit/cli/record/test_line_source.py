"""Lines out of a pipe or a file, whole and in order, whatever comes together."""

import os
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.cli.record import line_source
from headrace.cli.record.line_source import read_lines
from headrace.model.error import InvalidArgument


def lines_of(*writes: bytes) -> list[bytes]:
    reading, writing = os.pipe()

    def write() -> None:
        for data in writes:
            os.write(writing, data)
        os.close(writing)

    writer = threading.Thread(target=write)
    writer.start()
    found = [line for chunk in read_lines(reading) for line in chunk]
    writer.join()
    os.close(reading)
    return found


@settings(deadline=None, max_examples=40)
@given(st.lists(st.binary(min_size=1, max_size=6), max_size=8))
def test_lines_are_whole_however_they_are_written(writes: list[bytes]) -> None:
    data = b"".join(writes)
    expected = data.split(b"\n")
    if expected[-1] == b"":
        expected.pop()
    assert lines_of(*writes) == expected


def test_a_last_line_needs_no_line_feed() -> None:
    assert lines_of(b"one\ntwo") == [b"one", b"two"]


def test_an_empty_line_is_a_line() -> None:
    assert lines_of(b"\n\n") == [b"", b""]


def test_what_was_typed_comes_before_the_end_of_input() -> None:
    reading, writing = os.pipe()
    os.write(writing, b"typed\n")
    chunks = read_lines(reading)
    assert next(chunks) == [b"typed"]
    os.close(writing)
    assert list(chunks) == []
    os.close(reading)


def test_a_file_comes_in_chunks(tmp_path: Path) -> None:
    file = tmp_path / "lines"
    file.write_bytes(b"0123456789\n" * 200_000)
    with file.open("rb") as opened:
        chunks = list(read_lines(opened.fileno()))
    assert len(chunks) == 3
    assert sum(map(len, chunks)) == 200_000


def test_a_line_without_end_does_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_source, "LINE_MAX_BYTES", 1000)
    monkeypatch.setattr(line_source, "CHUNK_BYTES", 100)
    with pytest.raises(InvalidArgument, match="more than 1000 bytes"):
        lines_of(b"x" * 1200)
