"""Shard iterators: a sealed position in a shard, valid for five minutes."""

import struct
import time
from dataclasses import dataclass
from typing import Final

from headrace.gateway.kinesis.error import ServiceError, invalid_argument
from headrace.gateway.kinesis.identity.seal import Seal

VALID_MS: Final = 300_000
_PURPOSE: Final = b"shard iterator 1"
_FIXED: Final = struct.Struct(">qqIq")


@dataclass(frozen=True, slots=True)
class ShardIterator:
    """A position in a shard.

    Attributes:
        stream_created_ms: tells a stream from a later one of the same name.
        offset: the next offset to read.
    """

    stream: str
    stream_created_ms: int
    shard: int
    offset: int

    def sealed(self, seal: Seal, now_ms: int) -> str:
        """Return the text for a client; at most 240 characters."""
        fixed = _FIXED.pack(now_ms, self.stream_created_ms, self.shard, self.offset)
        return seal.close(fixed + self.stream.encode(), _PURPOSE)

    @classmethod
    def opened(cls, text: str, seal: Seal, now_ms: int) -> "ShardIterator":
        """Read a client's iterator.

        Raises:
            ServiceError: it is forged, or older than five minutes.
        """
        content = seal.open(text, _PURPOSE)
        if content is None or len(content) <= _FIXED.size:
            raise invalid_argument("Invalid ShardIterator.")
        issued_ms, created_ms, shard, offset = _FIXED.unpack_from(content)
        if now_ms - issued_ms > VALID_MS:
            raise ServiceError(
                "ExpiredIteratorException",
                f"Iterator expired. The iterator was created at time {_date(issued_ms)} while right"
                f" now it is {_date(now_ms)} which is further in the future than the tolerated "
                f"delay of {VALID_MS} milliseconds.",
            )
        return cls(content[_FIXED.size :].decode(), created_ms, shard, offset)


def _date(ms: int) -> str:
    return time.strftime("%a %b %d %H:%M:%S UTC %Y", time.gmtime(ms / 1000))
