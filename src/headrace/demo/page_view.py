"""One view of one page: what the site tells about a visitor's step."""

import json
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PageView:
    page: str
    user: str
    at_ms: int
    status: int

    def to_json(self) -> bytes:
        """The record's value.

        >>> PageView("/home", "ada", 1_000, 200).to_json()
        b'{"page":"/home","user":"ada","at_ms":1000,"status":200}'
        """
        fields = {"page": self.page, "user": self.user, "at_ms": self.at_ms, "status": self.status}
        return json.dumps(fields, separators=(",", ":")).encode()
