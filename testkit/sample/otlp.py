"""Metrics as a client would push them: OpenTelemetry's `MetricsData`, made field by field."""

from collections.abc import Mapping
from struct import pack


def metrics_data(
    values: Mapping[str, float], *, monotonic: bool = False, attributes: Mapping[str, str] = {}
) -> bytes:
    """Build a push with one number per metric; a sum where it is monotonic, otherwise a gauge."""
    metrics = b"".join(
        _field(2, _metric(name, value, monotonic, attributes)) for name, value in values.items()
    )
    return _field(1, _field(2, metrics))


def _metric(name: str, value: float, monotonic: bool, attributes: Mapping[str, str]) -> bytes:
    point = _tag(4, 1) + pack("<d", value)
    for key, text in attributes.items():
        point += _field(7, _field(1, key.encode()) + _field(2, _field(1, text.encode())))
    content = _field(1, point)
    if monotonic:
        content += _tag(2, 0) + b"\2" + _tag(3, 0) + b"\1"
    return _field(1, name.encode()) + _field(7 if monotonic else 5, content)


def _tag(number: int, kind: int) -> bytes:
    return _uvarint(number << 3 | kind)


def _field(number: int, content: bytes) -> bytes:
    return _tag(number, 2) + _uvarint(len(content)) + content


def _uvarint(value: int) -> bytes:
    out = b""
    while value >= 0x80:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])
