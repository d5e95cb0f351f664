"""Records as text and as JSON."""

import json
from collections.abc import Sequence

import pyarrow as pa
import pytest

from headrace.cli.record.format import JsonFormat, Records, TextFormat
from headrace.model.error import InvalidArgument
from headrace.model.ids import TopicPartition
from headrace.records.decode import decode
from headrace.records.encode import encode

TIME_MS = 1_700_000_000_123


def records(
    columns: Sequence[str] | None = None, values: Sequence[bytes | None] = (b"one", None, b"")
) -> Records:
    count = len(values)
    rows = pa.table(
        {
            "key": pa.array([b"k%d" % n if n % 2 == 0 else None for n in range(count)]),
            "value": pa.array(values, pa.binary()),
            "headers": pa.array(
                [[("a", b"1"), ("b", None)] if n == 0 else [] for n in range(count)],
                pa.map_(pa.string(), pa.binary()),
            ),
        }
    )
    batches = encode(rows, timestamp_ms=TIME_MS, base_offset=40)
    decoded = decode(batches.data, columns=columns)
    return Records(TopicPartition("clicks", 3), decoded.columns, 7)


def shown(text: str) -> bytes:
    compiled = TextFormat(text)
    return bytes(compiled.render(records(compiled.columns)))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("%v", b"one\n\n\n"),
        ("%t %p %o", b"clicks 3 40\nclicks 3 41\nclicks 3 42\n"),
        ("%k=%v;", b"k0=one;\n=;\nk2=;\n"),
        (r"%o\n", b"40\n41\n42\n"),
        (r"%o\c", b"404142"),
        (r"%o\t\x00|\c", b"40\t\0|41\t\0|42\t\0|"),
        ("%K,%V,%T", b"2,3,6\n-1,-1,6\n2,0,6\n"),
        ("%h/%H", b"a=1,b=/2\n/0\n/0\n"),
        ("%d", b"1700000000123\n" * 3),
        ("%d{iso}", b"2023-11-14T22:13:20.123+00:00\n" * 3),
        ("%k{hex} %v{base64}", b"6b30 b25l\n \n6b32 \n"),
        ("%x %y", b"-1 -1\n" * 3),
        ("%i", b"8\n9\n10\n"),
        ("100%%", b"100%\n" * 3),
        ("%t", b"clicks\n" * 3),
    ],
)
def test_a_format_is_followed(text: str, expected: bytes) -> None:
    assert shown(text) == expected


@pytest.mark.parametrize("text", ["%q", "%", "%v{octal}", "%o{hex}"])
def test_a_verb_that_does_not_exist_is_named(text: str) -> None:
    with pytest.raises(InvalidArgument, match=f"{text} is no part of a record"):
        TextFormat(text)


def test_an_escape_that_does_not_exist_is_named() -> None:
    with pytest.raises(InvalidArgument, match="is no escape"):
        TextFormat(r"%v\q")


def test_a_format_asks_only_for_the_columns_it_shows() -> None:
    assert list(TextFormat("%v %v").columns) == ["value"]
    assert list(TextFormat("%t").columns) == ["offset"]


def test_a_slice_shows_its_own_rows() -> None:
    compiled = TextFormat("%o:%v")
    whole = records(compiled.columns)
    rest = Records(whole.partition, whole.columns.slice(1), 0)
    assert bytes(compiled.render(rest)) == b"41:\n42:\n"


def test_nothing_shows_as_nothing() -> None:
    compiled = TextFormat("%v")
    none = Records(TopicPartition("t", 0), records(compiled.columns).columns.slice(0, 0), 0)
    assert bytes(compiled.render(none)) == b""


def test_json_has_one_object_per_line() -> None:
    lines = bytes(JsonFormat().render(records(JsonFormat.columns))).decode().splitlines()
    assert [json.loads(line) for line in lines] == [
        {
            "topic": "clicks",
            "partition": 3,
            "offset": 40,
            "timestamp": TIME_MS,
            "key": "k0",
            "value": "one",
            "headers": [{"key": "a", "value": "1"}, {"key": "b", "value": None}],
        },
        {
            "topic": "clicks",
            "partition": 3,
            "offset": 41,
            "timestamp": TIME_MS,
            "key": None,
            "value": None,
        },
        {
            "topic": "clicks",
            "partition": 3,
            "offset": 42,
            "timestamp": TIME_MS,
            "key": "k2",
            "value": "",
        },
    ]


def test_json_keeps_text_readable_and_bytes_apart() -> None:
    rows = records(JsonFormat.columns, ['grüße "du"\n'.encode(), b"\xff\x00"])
    first, second = bytes(JsonFormat().render(rows)).decode().splitlines()
    assert "grüße" in first
    assert json.loads(first)["value"] == 'grüße "du"\n'
    assert json.loads(second)["value_base64"] == "/wA="


def test_a_time_that_no_calendar_has_stays_a_number() -> None:
    compiled = TextFormat("%d{iso}")
    data = encode(pa.table({"value": ["x"]}), timestamp_ms=2**62).data
    far = Records(TopicPartition("t", 0), decode(data, columns=compiled.columns).columns, 0)
    assert bytes(compiled.render(far)) == b"%d\n" % 2**62
