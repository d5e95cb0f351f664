"""Reads the metrics of a push: OpenTelemetry's `MetricsData` in protocol buffers.

Only what Kafka's clients send is read: gauges and sums with numbers. Byte format: a message is a
row of fields, each a varint `number << 3 | kind` and its content; kinds are 0 varint, 1 eight
bytes, 2 length and bytes, 5 four bytes. The fields that are read, by message:

    MetricsData     1 ResourceMetrics
    ResourceMetrics 2 ScopeMetrics
    ScopeMetrics    2 Metric
    Metric          1 name, 5 Gauge, 7 Sum
    Gauge, Sum      1 NumberDataPoint; Sum: 3 monotonic
    NumberDataPoint 4 double, 6 sfixed64, 7 KeyValue
    KeyValue        1 key, 2 AnyValue (1 string, 2 bool, 3 int, 4 double)

Whatever comes is a client's: nothing is believed, no more than `max_samples` are read, and texts
and lists of attributes are cut. A few bytes can inflate to millions of empty fields, so the fields
that are walked are counted as well.
"""

from collections.abc import Iterator
from itertools import islice
from struct import Struct
from typing import NamedTuple

from headrace.model.error import PeerError

_DOUBLE = Struct("<d").unpack
_INT64 = Struct("<q").unpack
_VARINT, _EIGHT, _BYTES, _FOUR = 0, 1, 2, 5
_FIXED = {_EIGHT: 8, _FOUR: 4}
_MAX_VARINT_BYTES = 10
_MAX_TEXT_BYTES = 200
_MAX_ATTRIBUTES = 10
# 1000 samples with ten attributes each have half of that. It takes 0.1 to 0.2 s.
MAX_FIELDS = 100_000


class Sample(NamedTuple):
    """One number: its metric, whether it only grows, its attributes, and its value."""

    metric: str
    monotonic: bool
    attributes: tuple[tuple[str, str], ...]
    value: float


class BadTelemetry(PeerError):
    """A push that is no OpenTelemetry message."""


Field = tuple[int, int, memoryview]
"""A field's number, its kind, and its bytes; of a varint the value as eight bytes."""


def read_samples(data: memoryview, max_samples: int) -> list[Sample]:
    """Return the numbers of a push, at most so many.

    Raises:
        BadTelemetry: the bytes are no such message.
    """
    reader = _Reader()
    return list(islice(reader.samples(data), max_samples))


class _Reader:
    """Walks one push, up to `MAX_FIELDS`."""

    def __init__(self) -> None:
        self._fields_left = MAX_FIELDS

    def samples(self, data: memoryview) -> Iterator[Sample]:
        for resource in self._messages(data, 1):
            for scope in self._messages(resource, 2):
                for metric in self._messages(scope, 2):
                    yield from self._samples(metric)

    def _samples(self, metric: memoryview) -> Iterator[Sample]:
        name = ""
        for number, kind, content in self._fields(metric):
            if kind != _BYTES:
                continue
            if number == 1:
                name = _text(content)
            elif number in (5, 7):
                monotonic = number == 7 and any(
                    field == 3 and bytes(value).strip(b"\0")
                    for field, _, value in self._fields(content)
                )
                for point in self._messages(content, 1):
                    yield self._sample(name, monotonic, point)

    def _sample(self, name: str, monotonic: bool, point: memoryview) -> Sample:
        value = 0.0
        attributes: list[tuple[str, str]] = []
        for number, kind, content in self._fields(point):
            if kind == _EIGHT and number == 4:
                (value,) = _DOUBLE(content)
            elif kind == _EIGHT and number == 6:
                value = float(_INT64(content)[0])
            elif kind == _BYTES and number == 7 and len(attributes) < _MAX_ATTRIBUTES:
                attributes.append(self._attribute(content))
        return Sample(name, monotonic, tuple(attributes), value)

    def _attribute(self, pair: memoryview) -> tuple[str, str]:
        key = text = ""
        for number, kind, content in self._fields(pair):
            if kind == _BYTES and number == 1:
                key = _text(content)
            elif kind == _BYTES and number == 2:
                text = self._any_value(content)
        return key, text

    def _any_value(self, value: memoryview) -> str:
        for number, kind, content in self._fields(value):
            if number == 1 and kind == _BYTES:
                return _text(content)
            if number == 2 and kind == _VARINT:
                return "true" if _INT64(content)[0] else "false"
            if number == 3 and kind == _VARINT:
                return str(_INT64(content)[0])
            if number == 4 and kind == _EIGHT:
                return str(_DOUBLE(content)[0])
        return ""

    def _messages(self, data: memoryview, wanted: int) -> Iterator[memoryview]:
        for number, kind, content in self._fields(data):
            if (number, kind) == (wanted, _BYTES):
                yield content

    def _fields(self, data: memoryview) -> Iterator[Field]:
        at = 0
        while at < len(data):
            self._fields_left -= 1
            if self._fields_left < 0:
                raise BadTelemetry(f"metrics with more than {MAX_FIELDS} fields")
            tag, at = _varint(data, at)
            number, kind = tag >> 3, tag & 7
            if kind == _VARINT:
                value, at = _varint(data, at)
                yield number, kind, memoryview((value & (2**64 - 1)).to_bytes(8, "little"))
                continue
            if kind == _BYTES:
                size, at = _varint(data, at)
            elif kind in _FIXED:
                size = _FIXED[kind]
            else:
                raise BadTelemetry(f"metrics with a field of kind {kind}")
            if at + size > len(data):
                raise BadTelemetry("metrics that are cut off")
            yield number, kind, data[at : at + size]
            at += size


def _text(content: memoryview) -> str:
    return bytes(content[:_MAX_TEXT_BYTES]).decode(errors="replace")


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    value = 0
    for index, byte in enumerate(data[at : at + _MAX_VARINT_BYTES]):
        value |= (byte & 0x7F) << 7 * index
        if byte < 0x80:
            return value, at + index + 1
    raise BadTelemetry("metrics with a number that does not end")
