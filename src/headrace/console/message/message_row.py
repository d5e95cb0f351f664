"""One record of a topic, and how it is rendered for the page."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from headrace.console.message.payload_renderer import PayloadRenderer, View


@dataclass(frozen=True, slots=True)
class MessageRow:
    """One record, taken out of its columns."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]]

    def rendered(
        self, partition: int, renderer: PayloadRenderer, max_characters: int, view: View = View.AUTO
    ) -> dict[str, Any]:
        return {
            "partition": partition,
            "offset": self.offset,
            "timestamp_ms": self.timestamp_ms,
            "key": renderer.key(self.key, self.headers).as_json(),
            "value": renderer.show(self.value, view, max_characters, self.headers).as_json(),
            "headers": [
                {"name": name, **renderer.header(name, data).as_json()}
                for name, data in self.headers
            ],
        }


def rows_of(columns: pa.RecordBatch) -> Iterator[MessageRow]:
    """Yield the records one by one: only for the few that a person looks at."""
    offsets = columns.column("offset").to_pylist()
    times = columns.column("timestamp").cast(pa.int64()).to_pylist()
    keys, values, headers = (columns.column(name) for name in ("key", "value", "headers"))
    for number, (offset, timestamp_ms) in enumerate(zip(offsets, times, strict=True)):
        yield MessageRow(
            offset,
            timestamp_ms,
            keys[number].as_py(),
            values[number].as_py(),
            [(each["key"], each["value"]) for each in headers[number].as_py()],
        )
