"""Avro values that name their schemas: each is read by the schema that it names."""

from typing import Final

import numpy as np
import pyarrow as pa

from headrace.landing.row.value import ReadValues, ValueGroup
from headrace.model.error import InvalidArgument
from headrace.schema.avro.parsed import AvroSchema
from headrace.serde.avro.reader import AvroColumnReader
from headrace.serde.error import RegistryError
from headrace.serde.registered_schema import RegisteredSchema
from headrace.serde.registry_client import RegistryClient
from headrace.serde.wire_format import GUID_HEAD_BYTES, ID_HEAD_BYTES
from headrace.spark.value.registry.head import NO_SCHEMA, schema_heads

_MOST_READERS: Final = 200
_NOT_FOUND: Final = 404


class RegistryReader:
    """Reads Avro records as structs, whole columns per schema.

    Raises:
        RegistryUnreachable: from `read`: no registry answers.
        RegistryError: it refuses to, for another reason than that it has no such schema.
    """

    def __init__(self, registry: RegistryClient) -> None:
        self._registry = registry
        self._readers: dict[int | str, AvroColumnReader | str] = {}

    def read(self, values: pa.BinaryArray) -> ReadValues:
        heads = schema_heads(values)
        groups: list[ValueGroup] = []
        bad: list[tuple[int, str]] = []
        for key in np.unique(heads.keys).tolist():
            at = np.flatnonzero(heads.keys == key)
            if key == NO_SCHEMA:
                bad += [(int(each), "it names no schema") for each in at]
                continue
            guid = heads.guid(key)
            reader = self._reader(key if guid is None else guid)
            if isinstance(reader, str):
                bad += [(int(each), reader) for each in at]
                continue
            skipped = ID_HEAD_BYTES if guid is None else GUID_HEAD_BYTES
            column = reader.read(values.take(pa.array(at)), skipped)
            good = np.ones(len(at), bool)
            good[column.bad_rows] = False
            bad += [(int(at[row]), column.problem(int(row))) for row in column.bad_rows]
            groups.append(ValueGroup(pa.array(at[good]), column.values.filter(pa.array(good))))
        return ReadValues(groups, bad)

    def _reader(self, key: int | str) -> AvroColumnReader | str:
        """Return what reads values of a schema, or why nothing does."""
        found = self._readers.get(key)
        if found is None:
            if len(self._readers) >= _MOST_READERS:
                self._readers.clear()
            found = self._new_reader(key)
            if isinstance(found, AvroColumnReader):
                self._readers[key] = found
        return found

    def _new_reader(self, key: int | str) -> AvroColumnReader | str:
        try:
            schema = self._schema(key)
        except RegistryError as error:
            if error.status != _NOT_FOUND:
                raise
            return f"the registry has no schema {key}"
        if not isinstance(schema.parsed, AvroSchema):
            return f"schema {key} is {schema.type.value}, and only Avro becomes columns"
        try:
            reader = AvroColumnReader(schema.parsed)
        except InvalidArgument as error:
            return f"schema {key} has no columns: {error}"
        if not pa.types.is_struct(reader.type):
            return f"schema {key} is no record"
        return reader

    def _schema(self, key: int | str) -> RegisteredSchema:
        if isinstance(key, str):
            return self._registry.schema_of_guid(key)
        return self._registry.schema(key)
