"""What visitors do besides viewing pages."""

import json
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Activity:
    """One record of a topic, keyed by the user.

    >>> Activity("searches", "ada", 1_000, {"words": "lamp"}).to_json()
    b'{"user":"ada","at_ms":1000,"words":"lamp"}'
    """

    topic: str
    user: str
    at_ms: int
    details: Mapping[str, str]

    def to_json(self) -> bytes:
        fields = {"user": self.user, "at_ms": self.at_ms, **self.details}
        return json.dumps(fields, separators=(",", ":")).encode()
