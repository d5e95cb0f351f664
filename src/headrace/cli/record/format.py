r"""How `topic consume` prints records: `-f '%t %p %o %k %v\n'`, or one JSON object per line.

    %t topic    %p partition   %o offset   %k key   %v value   %h headers, key=value with commas
    %d time in milliseconds, %d{iso} as ISO text      %T %K %V bytes of topic, key, value (-1: null)
    %H number of headers       %x producer id         %y producer epoch       %i number of the line
    %k{hex} %k{base64} %v{hex} %v{base64}             %% a percent sign

A line feed follows each record, unless the format ends with one or with `\c`.

Records stay columns until they are bytes: a format is compiled to Arrow joins, and the buffer of
the joined column is written out. Only `{...}`, `%h` and JSON handle records one by one.
"""

import json
import re
from base64 import b64encode
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from headrace.cli.terminal.escape import unescape
from headrace.model.error import InvalidArgument
from headrace.model.ids import TopicPartition

_BYTES: Final = pa.large_binary()
_VERB: Final = re.compile(r"%(?:([a-zA-Z%])(?:\{([^}]*)\})?)?")
_NO_LINE_FEED: Final = r"\c"


@dataclass(frozen=True, slots=True)
class Records:
    """Some rows of one partition to print, and how many lines were printed before."""

    partition: TopicPartition
    columns: pa.RecordBatch
    printed: int


class RecordFormat(Protocol):
    """Renders columns as bytes. `columns` names those of `records.decode` that it needs."""

    @property
    def columns(self) -> Sequence[str]: ...

    def render(self, records: Records) -> memoryview: ...


Piece = Callable[[Records], Any]


class TextFormat:
    """A compiled `-f` format.

    Raises:
        InvalidArgument: the format has a verb or modifier that does not exist.
    """

    def __init__(self, text: str) -> None:
        self._pieces: list[Piece] = []
        needed: dict[str, None] = {}
        end = "\n"
        if text.endswith(_NO_LINE_FEED):
            text, end = text.removesuffix(_NO_LINE_FEED), ""
        elif text.endswith((r"\n", "\n")):
            end = ""
        at = 0
        for match in _VERB.finditer(text):
            self._literal(unescape(text[at : match.start()]))
            at = match.end()
            self._verb(match[1], match[2], needed)
        self._literal(unescape(text[at:]) + end.encode())
        # At least one column: it says how many records there are.
        self.columns: Sequence[str] = list(needed) or ["offset"]

    def render(self, records: Records) -> memoryview:
        pieces = [piece(records) for piece in self._pieces]
        if not any(isinstance(piece, pa.Array | pa.ChunkedArray) for piece in pieces):
            pieces.append(_texts([""] * records.columns.num_rows))
        joined = pc.binary_join_element_wise(
            *pieces, pa.scalar(b"", _BYTES), null_handling="replace", null_replacement=b""
        )
        return _content(joined)

    def _literal(self, data: bytes) -> None:
        if data:
            scalar = pa.scalar(data, _BYTES)
            self._pieces.append(lambda records: scalar)

    def _verb(self, letter: str | None, modifier: str | None, needed: dict[str, None]) -> None:
        if letter == "%" and modifier is None:
            self._literal(b"%")
            return
        known = _VERBS.get((letter or "", modifier))
        if known is None:
            written = f"%{letter or ''}" + ("" if modifier is None else f"{{{modifier}}}")
            raise InvalidArgument(
                f"{written} is no part of a record: there are %t %p %o %k %v %h %d %T %K %V %H %x "
                "%y %i and %%, with {hex} or {base64} after %k and %v and {iso} after %d"
            )
        column, piece = known
        if column is not None:
            needed[column] = None
        self._pieces.append(piece)


class JsonFormat:
    """One object per line. Bytes that are not UTF-8 are written as base64 under `key_base64`,
    `value_base64` and, in a header, `value_base64`."""

    columns: Sequence[str] = ("offset", "timestamp", "key", "value", "headers")

    def render(self, records: Records) -> memoryview:
        columns = records.columns
        where = (
            f'{{"topic":{_quoted(records.partition.topic)},'
            f'"partition":{records.partition.partition},"offset":'
        )
        rows = zip(
            columns.column("offset").to_pylist(),
            _milliseconds(columns).to_pylist(),
            self._fields("key", columns.column("key")),
            self._fields("value", columns.column("value")),
            _json_headers(columns.column("headers")),
            strict=True,
        )
        lines = [
            f'{where}{offset},"timestamp":{time},{key},{value}{headers}}}'
            for offset, time, key, value, headers in rows
        ]
        lines.append("")
        return memoryview("\n".join(lines).encode())

    def _fields(self, name: str, column: Any) -> Iterable[str]:
        """Return `"key":"alice"` for each row."""
        return _json_fields(name, column)


_quoted: Final = json.JSONEncoder(ensure_ascii=False).encode


def _json_fields(name: str, column: Any) -> Iterable[str]:
    """Return `"key":"alice"` for each row. Fast where all rows are text, which is the usual
    case."""
    try:
        texts = column.cast(pa.string()).to_pylist()
    except pa.ArrowInvalid:
        return [_json_field(name, data) for data in column.to_pylist()]
    head = f'"{name}":'
    return [head + ("null" if text is None else _quoted(text)) for text in texts]


def _json_field(name: str, data: bytes | None) -> str:
    if data is None:
        return f'"{name}":null'
    try:
        return f'"{name}":{_quoted(data.decode())}'
    except UnicodeDecodeError:
        return f'"{name}_base64":"{_base64(data)}"'


def _json_headers(column: Any) -> Iterable[str]:
    if not len(column.values):
        return [""] * len(column)
    return [
        ',"headers":['
        + ",".join(
            f'{{"key":{_quoted(each["key"])},{_json_field("value", each["value"])}}}'
            for each in headers
        )
        + "]"
        if headers
        else ""
        for headers in column.to_pylist()
    ]


def _content(joined: Any) -> memoryview:
    """Return the values of a column one after the other, as Arrow's buffer already has them."""
    array = joined.combine_chunks() if isinstance(joined, pa.ChunkedArray) else joined
    if not len(array):
        return memoryview(b"")
    offsets = memoryview(array.buffers()[1]).cast("B").cast("q")
    first, past = offsets[array.offset], offsets[array.offset + len(array)]
    data = array.buffers()[2]
    return memoryview(b"") if data is None else memoryview(data).cast("B")[first:past]


def _texts(values: Iterable[str]) -> Any:
    return pa.array(values, pa.large_string()).cast(_BYTES)


def _milliseconds(columns: pa.RecordBatch) -> Any:
    return columns.column("timestamp").cast(pa.int64())


def _numbers(column: Any) -> Any:
    return column.cast(pa.large_string()).cast(_BYTES)


def _number_of(name: str) -> Piece:
    return lambda records: _numbers(records.columns.column(name))


def _bytes_of(name: str) -> Piece:
    return lambda records: records.columns.column(name).cast(_BYTES)


def _length_of(name: str) -> Piece:
    return lambda records: _numbers(
        pc.fill_null(pc.binary_length(records.columns.column(name)), -1)
    )


def _encoded(name: str, encode: Callable[[bytes], str]) -> Piece:
    return lambda records: _texts(
        "" if value is None else encode(value) for value in records.columns.column(name).to_pylist()
    )


def _base64(data: bytes) -> str:
    return b64encode(data).decode()


def _constant(value: Callable[[TopicPartition], Any]) -> Piece:
    return lambda records: pa.scalar(str(value(records.partition)).encode(), _BYTES)


def _iso_times(records: Records) -> Any:
    return _texts(map(_iso_time, _milliseconds(records.columns).to_pylist()))


def _iso_time(timestamp_ms: int) -> str:
    """Return a time as ISO text. A producer may write any number: one outside the calendar is
    returned as a number."""
    try:
        moment = datetime.fromtimestamp(timestamp_ms / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return str(timestamp_ms)
    return moment.isoformat(timespec="milliseconds")


def _headers(records: Records) -> Any:
    return pa.array(
        (
            b",".join(
                header["key"].encode() + b"=" + (header["value"] or b"") for header in headers
            )
            for headers in records.columns.column("headers").to_pylist()
        ),
        _BYTES,
    )


def _lines(records: Records) -> Any:
    first = records.printed + 1
    return _numbers(pa.array(range(first, first + records.columns.num_rows), pa.int64()))


# (letter, modifier): the column it needs, and how it becomes bytes.
_VERBS: Final[dict[tuple[str, str | None], tuple[str | None, Piece]]] = {
    ("t", None): (None, _constant(lambda partition: partition.topic)),
    ("p", None): (None, _constant(lambda partition: partition.partition)),
    ("T", None): (None, _constant(lambda partition: len(partition.topic))),
    ("o", None): ("offset", _number_of("offset")),
    ("k", None): ("key", _bytes_of("key")),
    ("v", None): ("value", _bytes_of("value")),
    ("k", "hex"): ("key", _encoded("key", bytes.hex)),
    ("v", "hex"): ("value", _encoded("value", bytes.hex)),
    ("k", "base64"): ("key", _encoded("key", _base64)),
    ("v", "base64"): ("value", _encoded("value", _base64)),
    ("K", None): ("key", _length_of("key")),
    ("V", None): ("value", _length_of("value")),
    ("d", None): ("timestamp", lambda records: _numbers(_milliseconds(records.columns))),
    ("d", "iso"): ("timestamp", _iso_times),
    ("h", None): ("headers", _headers),
    ("H", None): (
        "headers",
        lambda records: _numbers(pc.list_value_length(records.columns.column("headers"))),
    ),
    ("x", None): ("producer_id", _number_of("producer_id")),
    ("y", None): ("producer_epoch", _number_of("producer_epoch")),
    ("i", None): ("offset", _lines),
}
