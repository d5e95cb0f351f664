"""Reads Avro files. Nothing vouches for them: the writer of a file chooses its schema, too.

Rule 1: fastavro recurses in C, and believes how many items an array has. So where a schema allows
values that nest or that take no bytes, they are walked before fastavro has them (`AvroBound`).
Rule 2: what was read before a fault is delivered. The fault is raised at every read after that:
the file does not count as read.
"""

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from headrace.ingest.error import IngestError
from headrace.ingest.event import EventBatch
from headrace.ingest.file.deserializer import Deserializer
from headrace.serde.codec.avro_bound import AvroBound

_MOST_EMPTY_RECORDS: Final = 100_000
"""Of a block with more records than bytes: each would be an event."""

_SHOWN: Final = 200


class AvroDeserializer(Deserializer):
    """Reads an Avro file: each record in Avro's encoding is a body, and the schema is a header.

    Positions count records, because a block can only be decoded as a whole.

    Raises:
        IngestError: it is no Avro file.
    """

    def __init__(self, path: Path, schema_type: str) -> None:
        import fastavro

        super().__init__(path)
        self._path = path
        self._fault: IngestError | None = None
        try:
            blocks = fastavro.block_reader(self.file)
            self._schema: Any = blocks.writer_schema
            self._bound = AvroBound(self._schema)
            self._headers = _schema_header(blocks, schema_type)
        except Exception as error:  # a hostile schema makes its C code raise any exception
            self.close()
            raise IngestError(f"{path} is no Avro file: {_words(error)}") from error
        self._write = fastavro.schemaless_writer
        self._records = self._all_records(blocks)

    def read(self, limit: int) -> EventBatch:
        if self._fault is not None:
            raise self._fault
        bodies: list[bytes] = []
        try:
            while len(bodies) < limit and (record := next(self._records, self)) is not self:
                out = io.BytesIO()
                self._write(out, self._schema, record)
                bodies.append(out.getvalue())
                self.position += 1
        except Exception as error:
            self._fault = self._unreadable(error)
            if not bodies:
                raise self._fault from error
        return EventBatch.plain(bodies, self._headers)

    def seek(self, position: int) -> None:
        """Continue after so many records, by reading the file from its start."""
        import fastavro

        self.file.seek(0)
        self._fault = None
        self.position = 0
        try:
            self._records = self._all_records(fastavro.block_reader(self.file))
            for _ in range(position):
                next(self._records)
                self.position += 1
        except Exception as error:
            raise self._unreadable(error) from error

    def _all_records(self, blocks: Any) -> Iterator[Any]:
        for block in blocks:
            data = block.bytes_.getbuffer()
            if block.num_records > max(data.nbytes, _MOST_EMPTY_RECORDS):
                raise ValueError(f"a block of {data.nbytes} bytes has {block.num_records} records")
            self._bound.check_all(data, block.num_records)
            del data
            yield from block

    def _unreadable(self, error: Exception) -> IngestError:
        return IngestError(
            f"{self._path}: the record after {self.position} others cannot be read: {_words(error)}"
        )


def _schema_header(blocks: Any, schema_type: str) -> dict[str, str]:
    from fastavro.schema import fingerprint, to_parsing_canonical_form

    if schema_type == "LITERAL":
        return {"flume.avro.schema.literal": blocks.metadata["avro.schema"]}
    canonical = to_parsing_canonical_form(blocks.writer_schema)
    return {"flume.avro.schema.hash": fingerprint(canonical, "CRC-64-AVRO")}


def _words(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:_SHOWN]
