"""The data keys of a stream: which one encrypts, and those that older records need."""

import base64
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class DataKey:
    """A key of one stream, wrapped by a master key.

    Attributes:
        number: in the order of their making, from 1; records name it.
        key_id: as the request named the master key, for DescribeStream.
        master: the id of the master key in the file of the gateway.
        retired_ms: since when it encrypts no more, or None.
    """

    number: int
    key_id: str
    master: str
    wrapped: bytes
    created_ms: int
    retired_ms: int | None = None

    def as_json(self) -> dict[str, Any]:
        return {
            "number": self.number,
            "key_id": self.key_id,
            "master": self.master,
            "wrapped": base64.b64encode(self.wrapped).decode(),
            "created_ms": self.created_ms,
            "retired_ms": self.retired_ms,
        }

    @classmethod
    def from_json(cls, raw: dict[str, Any]) -> "DataKey":
        return cls(**{**raw, "wrapped": base64.b64decode(raw["wrapped"])})
