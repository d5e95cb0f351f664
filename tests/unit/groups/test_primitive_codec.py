"""Kafka's primitive types, to the byte and to the last value that fits."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from headrace.groups.primitive_codec import MalformedRecord, RecordReader, RecordWriter


def written(write: Callable[[RecordWriter], None]) -> bytes:
    writer = RecordWriter()
    write(writer)
    return bytes(writer)


@pytest.mark.parametrize(
    ("value", "data"),
    [
        (0, "00"),
        (1, "01"),
        (127, "7f"),
        (128, "8001"),
        (300, "ac02"),
        (16_383, "ff7f"),
        (16_384, "808001"),
        (2**32 - 1, "ffffffff0f"),
    ],
)
def test_a_varint_has_seven_bits_in_a_byte(value: int, data: str) -> None:
    assert written(lambda writer: writer.uvarint(value)).hex() == data
    assert RecordReader(bytes.fromhex(data)).uvarint() == value


@pytest.mark.parametrize("data", ["", "80", "808080808001"])
def test_a_varint_ends_within_five_bytes(data: str) -> None:
    with pytest.raises(MalformedRecord):
        RecordReader(bytes.fromhex(data)).uvarint()


@pytest.mark.parametrize(
    ("kind", "value", "data"),
    [
        ("int8", -2, "fe"),
        ("int16", -2, "fffe"),
        ("int32", -2, "fffffffe"),
        ("int64", -2, "fffffffffffffffe"),
        ("uuid", UUID(int=5), "00000000000000000000000000000005"),
        ("string", "hü", "000368c3bc"),
        ("string", "", "0000"),
        ("blob", b"xy", "000000027879"),
        ("blob", b"", "00000000"),
        ("compact_string", "ab", "036162"),
        ("compact_string", "", "01"),
        ("compact_blob", b"ab", "036162"),
        ("compact_blob", b"", "01"),
    ],
)
def test_each_type_is_read_as_it_is_written(kind: str, value: Any, data: str) -> None:
    assert written(lambda writer: getattr(writer, kind)(value)).hex() == data
    reader = RecordReader(bytes.fromhex(data))
    assert getattr(reader, kind)() == value
    assert reader.remaining == 0
    for size in range(len(data) // 2):
        with pytest.raises(MalformedRecord):
            getattr(RecordReader(bytes.fromhex(data)[:size]), kind)()


@pytest.mark.parametrize(
    ("kind", "null", "value", "data"),
    [
        ("nullable_string", "ffff", "a", "000161"),
        ("nullable_blob", "ffffffff", b"a", "0000000161"),
        ("compact_nullable_string", "00", "a", "0261"),
        ("compact_nullable_string", "00", "", "01"),
    ],
)
def test_null_is_not_empty(kind: str, null: str, value: Any, data: str) -> None:
    assert getattr(RecordReader(bytes.fromhex(null)), kind)() is None
    assert getattr(RecordReader(bytes.fromhex(data)), kind)() == value


def test_null_strings_are_written() -> None:
    assert written(lambda writer: writer.string(None)) == b"\xff\xff"
    assert written(lambda writer: writer.compact_string(None)) == b"\0"


@pytest.mark.parametrize("kind", ["string", "compact_string", "compact_blob", "blob"])
def test_what_cannot_be_null_is_not_read_as_null(kind: str) -> None:
    null = b"\0" if kind.startswith("compact") else b"\xff" * 4
    with pytest.raises(MalformedRecord):
        getattr(RecordReader(null), kind)()


def test_a_string_has_at_most_as_many_bytes_as_its_length_can_say() -> None:
    longest = "x" * (2**15 - 1)
    assert RecordReader(written(lambda writer: writer.string(longest))).string() == longest
    with pytest.raises(MalformedRecord, match="does not fit"):
        RecordWriter().string(longest + "x")


def test_a_string_is_text() -> None:
    with pytest.raises(MalformedRecord, match="not UTF-8"):
        RecordReader(b"\0\1\xff").string()


def test_arrays_hold_as_many_items_as_their_counts_say() -> None:
    empty_strings = written(lambda writer: writer.compact_array(["", ""], writer.compact_string))
    assert empty_strings == b"\3\1\1"
    reader = RecordReader(empty_strings)
    assert reader.compact_array(reader.compact_string) == ["", ""]
    reader = RecordReader(b"\0\0\0\2\5\6")
    assert reader.array(reader.int8) == [5, 6]
    reader = RecordReader(b"\0\0\0\0")
    assert reader.array(reader.int8) == []


@pytest.mark.parametrize("data", [b"\xff\xff\xff\xff", b"\0\0\0\3\5\6", b"\x7f\xff\xff\xff"])
def test_a_count_that_cannot_be_is_refused(data: bytes) -> None:
    reader = RecordReader(data)
    with pytest.raises(MalformedRecord, match="items are announced"):
        reader.array(lambda: None)


def test_tags_are_read_as_they_are_written() -> None:
    fields = [(0, b"ab"), (200, b"")]
    data = written(lambda writer: writer.tags(fields))

    assert data == b"\2\0\2ab\xc8\1\0"
    assert RecordReader(data).tags() == dict(fields)
    assert written(lambda writer: writer.tags()) == b"\0"
    with pytest.raises(MalformedRecord):
        RecordReader(data[:-1]).tags()
