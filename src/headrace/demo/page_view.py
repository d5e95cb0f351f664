"""One view of one page, as the site writes it."""

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache


@dataclass(frozen=True, slots=True)
class PageView:
    page: str
    user: str
    at_ms: int
    status: int

    def to_json(self) -> bytes:
        """Return the record's value.

        >>> PageView("/home", "ada", 1_000, 200).to_json()
        b'{"page":"/home","user":"ada","at_ms":1000,"status":200}'
        """
        fields = {"page": self.page, "user": self.user, "at_ms": self.at_ms, "status": self.status}
        return json.dumps(fields, separators=(",", ":")).encode()

    def to_log_line(self) -> str:
        """Return the line of the web server's access log, in the common log format.

        >>> PageView("/home", "ada", 1_000, 200).to_log_line()
        '127.0.0.1 - ada [01/Jan/1970:00:00:01 +0000] "GET /home HTTP/1.1" 200 -'
        """
        moment = _log_time(self.at_ms // 1_000)
        return f'127.0.0.1 - {self.user} [{moment}] "GET {self.page} HTTP/1.1" {self.status} -'


@lru_cache(maxsize=16)
def _log_time(second: int) -> str:
    return datetime.fromtimestamp(second, UTC).strftime("%d/%b/%Y:%H:%M:%S +0000")
