"""Which records of a topic a person looks for."""

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from headrace.console.message.json_path import MISSING, as_text, look_up
from headrace.console.message.message_row import MessageRow, rows_of
from headrace.console.message.payload_renderer import PayloadRenderer


@dataclass(frozen=True, slots=True)
class MessageFilter:
    """What a record must contain: a text in one of `fields`, a value at a JSON path, or both.

    A filter without text and path matches every record.
    """

    text: bytes = b""
    fields: frozenset[str] = frozenset(("key", "value", "headers"))
    path: tuple[str | int, ...] = ()
    equals: str | None = None

    @property
    def matches_all(self) -> bool:
        return not self.text and not self.path

    def matching(self, columns: pa.RecordBatch, renderer: PayloadRenderer) -> Iterator[MessageRow]:
        """Yield the records that match. Masked fields are not searched."""
        if self.text and not renderer.hides:
            columns = columns.filter(self._candidates(columns))
        for row in rows_of(columns):
            if self._has_text(row, renderer) and self._has_value(row, renderer):
                yield row

    def _candidates(self, columns: pa.RecordBatch) -> pa.Array:
        """Return which rows may match, computed over whole columns: only they are opened."""
        masks = [
            pc.match_substring(columns.column(field), self.text)
            for field in ("key", "value")
            if field in self.fields
        ]
        if "headers" in self.fields:
            masks.append(pc.greater(pc.list_value_length(columns.column("headers")), 0))
        candidates = pc.fill_null(masks[0], False)
        for each in masks[1:]:
            candidates = pc.or_(candidates, pc.fill_null(each, False))
        return candidates

    def _has_text(self, row: MessageRow, renderer: PayloadRenderer) -> bool:
        if not self.text:
            return True
        headers = row.headers
        if "key" in self.fields and self.text in (renderer.searchable_key(row.key, headers) or b""):
            return True
        if "value" in self.fields and self.text in (renderer.searchable(row.value, headers) or b""):
            return True
        return "headers" in self.fields and any(
            self.text in name.encode() + b"=" + (renderer.searchable_header(name, data) or b"")
            for name, data in row.headers
        )

    def _has_value(self, row: MessageRow, renderer: PayloadRenderer) -> bool:
        if not self.path:
            return True
        value = look_up(renderer.parsed(row.value, row.headers), self.path)
        return value is not MISSING and (self.equals is None or as_text(value) == self.equals)
