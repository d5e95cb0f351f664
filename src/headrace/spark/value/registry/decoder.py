"""Decodes a column of framed values: each by the schema that it names, all to one type.

Rule 1: values are grouped by the schema that they name, and a group is decoded in one step. A
column with one schema, the common case, is one group.
Rule 2: a value that names no schema, one that the registry does not have, or one of another format
is a bad value, as one that its schema cannot read.
Rule 3: a registry that does not answer fails the task: its values may be good.
"""

from collections.abc import Iterator
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.schema.protobuf.parsed import ProtobufSchema
from headrace.schema.schema import SchemaType
from headrace.serde.error import RegistryError, Undecodable
from headrace.serde.registered_schema import RegisteredSchema
from headrace.serde.wire_format import GUID_HEAD_BYTES, ID_HEAD_BYTES, read_indexes
from headrace.spark.value.decoded import DecodedColumn, RowNumbers
from headrace.spark.value.decoder import ColumnDecoding
from headrace.spark.value.registry.client import reader_schema, registry_access
from headrace.spark.value.registry.column import PayloadReader, payload_reader
from headrace.spark.value.registry.head import (
    NO_SCHEMA,
    SchemaHeads,
    schema_heads,
    without_heads,
)
from headrace.spark.value.registry.option import RegistryFormat

_NOT_FOUND: Final = 404


class RegistryDecoding:
    """Decodes columns of framed values. It makes its requests when the first values come."""

    def __init__(self, options: RegistryFormat, kind: pa.DataType, *, fail_fast: bool) -> None:
        self._options = options
        self._kind = kind
        self._fail_fast = fail_fast
        self._access = registry_access(options.registry)

    def __call__(self, values: pa.Array) -> pa.Array:
        return self.decode(values).values

    def decode(self, values: pa.Array) -> DecodedColumn:
        """Return the decoded column, in which nulls stay null.

        Raises:
            BadValue: a value that cannot be decoded, if that is to fail.
            ConfigError: the column has a field that the reader's Avro schema does not have.
            RegistryError: the registry refuses a request.
            RegistryUnreachable: no registry answers.
        """
        if values.type != pa.binary():
            values = values.cast(pa.binary())
        pieces = []
        places = np.full(len(values), -1, np.int64)
        bad = np.zeros(len(values), np.bool_)
        filled = 0
        for rows, piece in self._pieces(values):
            if piece is None:
                bad[rows] = True
                continue
            pieces.append(piece.values)
            bad[rows[piece.bad_rows]] = True
            places[rows] = np.arange(filled, filled + len(rows))
            filled += len(rows)
        bad_rows = np.flatnonzero(bad & _validity(values))
        if not pieces:
            return DecodedColumn(pa.nulls(len(values), self._kind), bad_rows)
        whole = pieces[0] if len(pieces) == 1 else pa.concat_arrays(pieces)
        if len(pieces) > 1 or filled < len(values):
            whole = whole.take(pa.array(places, mask=places < 0))
        return DecodedColumn(whole, bad_rows)

    def _pieces(self, values: pa.Array) -> Iterator[tuple[RowNumbers, DecodedColumn | None]]:
        """Yield groups of rows, decoded; None for a group that cannot be."""
        heads = schema_heads(values)
        for key in np.unique(heads.keys).tolist():
            rows = np.flatnonzero(heads.keys == key)
            part = values if len(rows) == len(values) else values.take(pa.array(rows))
            try:
                writer = self._writer(key, heads)
            except Undecodable as error:
                self._bad(part, error)
                yield rows, None
                continue
            head_bytes = ID_HEAD_BYTES if key >= 0 else GUID_HEAD_BYTES
            match writer.type:
                case SchemaType.AVRO:
                    yield rows, self._decoding(writer, head_bytes).decode(part)
                case SchemaType.PROTOBUF:
                    yield from self._messages(rows, part, writer, head_bytes)
                case SchemaType.JSON:
                    yield rows, self._decoding(writer).decode(without_heads(part, head_bytes))

    def _messages(
        self, rows: RowNumbers, part: pa.Array, writer: RegisteredSchema, head_bytes: int
    ) -> Iterator[tuple[RowNumbers, DecodedColumn | None]]:
        """Yield groups of Protobuf messages, decoded, by the message indexes that they name."""
        groups: dict[tuple[tuple[int, ...], int], list[int]] = {}
        for at, value in enumerate(part.to_pylist()):
            try:
                groups.setdefault(read_indexes(value, head_bytes), []).append(at)
            except Undecodable as error:
                self._bad(part.slice(at, 1), error)
                yield rows[at : at + 1], None
        for (indexes, end), places in groups.items():
            chosen = part if len(places) == len(part) else part.take(pa.array(places))
            try:
                self._check_message(writer, indexes)
            except Undecodable as error:
                self._bad(chosen, error)
                yield rows[places], None
                continue
            yield rows[places], self._decoding(writer).decode(without_heads(chosen, end))

    def _check_message(self, writer: RegisteredSchema, indexes: tuple[int, ...]) -> None:
        assert isinstance(writer.parsed, ProtobufSchema)
        name = writer.parsed.message_name(indexes)
        wanted = self._options.message or reader_schema(self._options).parsed.name
        if name != wanted:
            raise Undecodable(f"the value is a message {name}, not {wanted}")

    def _decoding(self, writer: RegisteredSchema, head_bytes: int = 0) -> ColumnDecoding:
        reader = reader_schema(self._options)
        kind, message = self._kind, self._options.message

        def make() -> PayloadReader:
            return payload_reader(writer, reader, kind, message, head_bytes=head_bytes)

        key = ("read", writer.id, writer.guid, reader.id, message, kind, head_bytes)
        return ColumnDecoding(
            self._access.kept(key, make),
            kind,
            self._options.format,
            fail_fast=self._fail_fast,
        )

    def _writer(self, key: int, heads: SchemaHeads) -> RegisteredSchema:
        """Return the schema that values name.

        Raises:
            Undecodable: there is none, or it is of another format.
        """
        if key == NO_SCHEMA:
            raise Undecodable("it names no schema: it does not begin with byte 0 and an id")
        guid = heads.guid(key)
        name = key if guid is None else guid
        client = self._access.client
        try:
            if guid is None:
                found = client.schema(key, self._options.subject)
            else:
                found = client.schema_of_guid(guid)
        except RegistryError as error:
            if error.status != _NOT_FOUND:
                raise
            why = f"it names the schema {name}, which the registry does not have"
            raise Undecodable(why) from error
        if found.type is not self._options.type:
            raise Undecodable(f"it names a schema of {found.type.value}")
        return found

    def _bad(self, values: pa.Array, error: Undecodable) -> None:
        if values.null_count < len(values) and self._fail_fast:
            ColumnDecoding.refuse(values.drop_null(), self._options.format, self._kind, error)


def _validity(values: pa.Array) -> npt.NDArray[np.bool_]:
    valid: npt.NDArray[np.bool_] = values.is_valid().to_numpy(zero_copy_only=False)
    return valid
