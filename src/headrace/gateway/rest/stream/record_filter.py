"""Which records of a topic a stream shows, and how. Pure."""

import json
from dataclasses import dataclass
from typing import Any

from headrace.gateway.rest.produce.embedded_data import to_base64


@dataclass(frozen=True, slots=True)
class RecordFilter:
    """Records that a client wants; without a wish it wants all.

    Attributes:
        key: the whole key.
        contains: some bytes of the value.
    """

    key: bytes | None = None
    contains: bytes | None = None

    def accepts(self, key: bytes | None, value: bytes | None) -> bool:
        """Return whether a record is one of them.

        >>> RecordFilter(contains=b"err").accepts(None, b"an error")
        True
        """
        if self.key is not None and key != self.key:
            return False
        return self.contains is None or (value is not None and self.contains in value)


def shown(data: bytes | None) -> tuple[str, Any]:
    """Return how a key or a value is shown: as JSON, as text, or in base64.

    >>> shown(b'{"a": 1}'), shown(b"plain"), shown(bytes([255]))
    (('JSON', {'a': 1}), ('STRING', 'plain'), ('BINARY', '/w=='))
    """
    if data is None:
        return "STRING", None
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return "BINARY", to_base64(data)
    if text[:1] in ("{", "["):
        try:
            value = json.loads(text, parse_constant=_refuse)
            json.dumps(value, ensure_ascii=False).encode()
        except (ValueError, RecursionError):
            return "STRING", text
        return "JSON", value
    return "STRING", text


def _refuse(name: str) -> None:
    raise ValueError(name)
