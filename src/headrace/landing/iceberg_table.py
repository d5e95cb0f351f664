"""Iceberg tables. Offsets are properties of the snapshot that a commit makes, and of the table.

The last snapshot with offsets says where to continue, so that a table that is rolled back continues
where it was. If that snapshot has expired, the table's own property says it.

PyIceberg repeats an append when another commit came first. A second process would add the same
rows by that, so a landing's commit is never repeated by PyIceberg, only by the lander, which looks
at the offsets first.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import IO, Any, Final
from uuid import uuid4

import pyarrow as pa
from pyiceberg.catalog import Catalog, MetastoreCatalog, load_catalog
from pyiceberg.exceptions import (
    CommitFailedException,
    NoSuchNamespaceError,
    NoSuchTableError,
    RESTError,
    TableAlreadyExistsError,
    ValidationException,
)
from pyiceberg.io import FileIO, load_file_io
from pyiceberg.io.pyarrow import (
    compute_statistics_plan,
    data_file_statistics_from_parquet_metadata,
    parquet_path_to_id_mapping,
    schema_to_pyarrow,
)
from pyiceberg.manifest import DataFile as IcebergFile
from pyiceberg.manifest import DataFileContent, FileFormat
from pyiceberg.table import Table as Iceberg
from pyiceberg.table import Transaction
from pyiceberg.table.snapshots import ancestors_of
from pyiceberg.transforms import DayTransform, HourTransform
from pyiceberg.typedef import Record
from sqlalchemy.exc import SQLAlchemyError

from headrace.landing.data_file import DataFile
from headrace.landing.error import (
    LandingError,
    TableConflict,
    TableUnavailable,
    without_login,
)
from headrace.landing.iceberg_file import IcebergFiles
from headrace.landing.iceberg_maintenance import OFFSETS, IcebergMaintenance, offsets_of
from headrace.landing.iceberg_merge import replaced_files
from headrace.landing.iceberg_transaction import SingleCommit
from headrace.landing.source import PROPERTY, Source
from headrace.landing.table import Changes, TableStatus
from headrace.landing.time_partition import TimePartition
from headrace.model.error import ConfigError
from headrace.model.table.table_name import TableName

_TRANSFORMS: Final = {"hour": HourTransform, "day": DayTransform}
# Old metadata files are of no use: each holds all snapshots.
_PROPERTIES: Final = {
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "20",
    "format-version": "2",
}
_STORAGE: Final = ("s3.", "gcs.", "adls.", "hdfs.", "hf.", "client.")
_FILE_CHOICE: Final = ("py-io-impl", "DEFAULT_SCHEME", "DEFAULT_NETLOC")


class IcebergLanding:
    """An Iceberg table of any catalog that PyIceberg knows."""

    def __init__(self, name: TableName, table: Iceberg) -> None:
        self.name = name
        self._table = table
        self.source = Source.of(table.properties.get(PROPERTY), name)
        by = self.source.partition_by
        self.partitioning = None if by is None else TimePartition.parse(by)
        self._schema = _file_schema(table)

    @classmethod
    def open(cls, name: TableName, catalog: Mapping[str, str]) -> "IcebergLanding | None":
        """Return the table, or None if there is none."""
        with _reaching(name):
            try:
                return cls(name, _catalog(name, catalog).load_table(name.identifier))
            except (NoSuchTableError, NoSuchNamespaceError):
                return None

    @classmethod
    def create(
        cls,
        name: TableName,
        catalog: Mapping[str, str],
        columns: pa.Schema,
        source: Source,
        offsets: Mapping[int, int],
    ) -> "IcebergLanding":
        """Create the table, and its namespace if there is none."""
        by = None if source.partition_by is None else TimePartition.parse(source.partition_by)
        properties = {
            **_PROPERTIES,
            PROPERTY: source.as_json(),
            OFFSETS: _offsets_text(offsets),
        }
        with _reaching(name):
            found = _catalog(name, catalog)
            _create_namespace(found, name.identifier.rpartition(".")[0])
            try:
                location = _new_location(found, name.identifier, columns)
                with (
                    found.create_table_transaction(
                        name.identifier, columns, location, properties=properties
                    ) as transaction,
                    transaction.update_spec() as spec,
                ):
                    if by is not None:
                        spec.add_field(by.column, _TRANSFORMS[by.unit](), by.name)
            except TableAlreadyExistsError as error:
                raise TableConflict(f"{name} was made by another process: start again") from error
            return cls(name, found.load_table(name.identifier))

    @property
    def location(self) -> str:
        return self._table.metadata.location

    @property
    def columns(self) -> pa.Schema:
        return self._schema

    @property
    def file_schema(self) -> pa.Schema:
        return self._schema

    def refresh(self) -> None:
        with _reaching(self.name):
            self._table.refresh()
        self._schema = _file_schema(self._table)

    def offsets(self, partitions: Iterable[int]) -> dict[int, int]:
        found = self._all_offsets()
        return {each: found[each] for each in partitions if each in found}

    def rows(self) -> int:
        head = self._table.current_snapshot()
        if head is None or head.summary is None:
            return 0
        return int(head.summary["total-records"] or 0)

    def files(self) -> IcebergFiles:
        # For other processes: they reach the storage, and nothing of the catalog goes to them.
        with _reaching(self.name):
            return self._files(load_file_io(_of_storage(self._table.io.properties), self.location))

    def create_file(self, partition: int | None) -> tuple[str, IO[bytes]]:
        return self._files(self._table.io).create_file(partition)

    def remove_file(self, path: str) -> None:
        self._table.io.delete(path)

    def append(self, files: Sequence[DataFile], offsets: Mapping[int, int]) -> None:
        with _reaching(self.name):
            transaction, properties = self._begin(offsets)
            with transaction.update_snapshot(properties).fast_append() as commit:
                for each in files:
                    commit.append_data_file(self._described(each))
            transaction.commit_transaction()

    def merge(self, changes: Changes, offsets: Mapping[int, int]) -> None:
        with _reaching(self.name):
            added, removed = replaced_files(self, self._table, changes)
            if not added and not removed:
                self.append([], offsets)
                return
            transaction, properties = self._begin(offsets)
            with transaction.update_snapshot(properties).overwrite() as commit:
                for old in removed:
                    commit.delete_data_file(old)
                for new in added:
                    commit.append_data_file(self._described(new))
            transaction.commit_transaction()

    def add_columns(self, fields: Sequence[pa.Field]) -> None:
        with _reaching(self.name), self._table.update_schema() as update:
            wanted = pa.schema([each.with_nullable(True) for each in fields])
            update.union_by_name(wanted)
        self.refresh()

    def compact(self, *, target_bytes: int) -> tuple[int, int]:
        with _reaching(self.name):
            return self._maintenance().compact(target_bytes)

    def expire(self, *, older_than_ms: int) -> tuple[int, int]:
        with _reaching(self.name):
            return self._maintenance().expire(datetime.fromtimestamp(older_than_ms / 1000, UTC))

    def status(self, *, small_bytes: int) -> TableStatus:
        with _reaching(self.name):
            files = [each.file for each in self._table.scan().plan_files()]
        head = self._table.current_snapshot()
        return TableStatus(
            rows=sum(each.record_count for each in files),
            files=len(files),
            size_bytes=sum(each.file_size_in_bytes for each in files),
            small_files=sum(each.file_size_in_bytes < small_bytes for each in files),
            version=-1 if head is None else head.snapshot_id,
            snapshots=len(self._table.snapshots()),
            changed_ms=None if head is None else head.timestamp_ms,
        )

    def _files(self, io: FileIO) -> IcebergFiles:
        metadata = self._table.metadata
        return IcebergFiles(
            metadata.location, io, metadata.properties, self._schema, self.partitioning
        )

    def _maintenance(self) -> IcebergMaintenance:
        return IcebergMaintenance(
            self,
            self._table,
            self._described,
            lambda: _offsets_text(self._all_offsets()),
        )

    def _begin(self, offsets: Mapping[int, int]) -> tuple[Transaction, dict[str, str]]:
        """Begin a transaction that sets offsets, and that PyIceberg does not repeat."""
        # A snapshot has the offsets of all partitions: those that did not move stay.
        properties = {OFFSETS: _offsets_text({**self._all_offsets(), **offsets})}
        transaction = SingleCommit(self._table)
        transaction.set_properties(properties)
        return transaction, properties

    def _all_offsets(self) -> dict[int, int]:
        text = self._table.properties.get(OFFSETS)
        head = self._table.current_snapshot()
        if head is not None:
            for each in ancestors_of(head, self._table.metadata):
                kept = offsets_of(each)
                if kept is not None:
                    text = kept
                    break
        return {int(each): int(offset) for each, offset in json.loads(text or "{}").items()}

    def _described(self, file: DataFile) -> IcebergFile:
        """Return a file as a manifest names it."""
        metadata = self._table.metadata
        schema = metadata.schema()
        statistics = data_file_statistics_from_parquet_metadata(
            parquet_metadata=file.metadata,
            stats_columns=compute_statistics_plan(schema, metadata.properties),
            parquet_column_mapping=parquet_path_to_id_mapping(schema),
        )
        return IcebergFile.from_args(
            content=DataFileContent.DATA,
            file_path=file.path,
            file_format=FileFormat.PARQUET,
            partition=Record() if self.partitioning is None else Record(file.partition),
            file_size_in_bytes=file.size_bytes,
            sort_order_id=None,
            spec_id=metadata.default_spec_id,
            equality_ids=None,
            key_metadata=None,
            **statistics.to_serialized_dict(),
        )


def _offsets_text(offsets: Mapping[int, int]) -> str:
    return json.dumps({str(each): offset for each, offset in sorted(offsets.items())})


def _of_storage(properties: Mapping[str, Any]) -> dict[str, str]:
    """Return the properties that reach files, without the catalog's secrets and its session."""
    return {
        key: each
        for key, each in properties.items()
        if key in _FILE_CHOICE or key.startswith(_STORAGE)
    }


def _catalog(name: TableName, properties: Mapping[str, str]) -> Catalog:
    try:
        return load_catalog(name.catalog, **properties)
    except ValueError:
        # PyIceberg's sentence has the uri, and that may have a password.
        raise ConfigError(
            f"the catalog {name.catalog} is not configured, or its uri does not show its type: "
            "write --catalog uri=... and --catalog type=rest (or sql, hive, glue), or name it in "
            "~/.pyiceberg.yaml"
        ) from None


def _new_location(catalog: Catalog, identifier: str, columns: pa.Schema) -> str | None:
    """Return where no other table has files; None lets the server of the catalog choose.

    A table that is renamed stays where it was: without this, a new one of its old name would have
    files in the same place, and each would take the other's for files that no snapshot names.
    """
    if not isinstance(catalog, MetastoreCatalog):
        return None
    # Only planned: what is not committed is not made.
    planned = catalog.create_table_transaction(identifier, columns)
    return f"{planned.table_metadata.location}-{uuid4().hex}"


def _create_namespace(catalog: Catalog, namespace: str) -> None:
    """Create a namespace, if there is none. Two landings may do so at the same time, and a catalog
    in a database then refuses one of them."""
    try:
        catalog.create_namespace_if_not_exists(namespace)
    except SQLAlchemyError:
        if not catalog.namespace_exists(namespace):
            raise


def _file_schema(table: Iceberg) -> pa.Schema:
    found = schema_to_pyarrow(table.schema(), include_field_ids=True)
    return pa.schema([_small(each) for each in found])


def _small(each: pa.Field) -> pa.Field:
    return each.with_type(_small_type(each.type))


def _small_type(kind: pa.DataType) -> pa.DataType:
    """Return a type with 32-bit offsets, as the client's columns have; ids of fields are kept."""
    if pa.types.is_large_binary(kind):
        return pa.binary()
    if pa.types.is_large_string(kind):
        return pa.string()
    if pa.types.is_large_list(kind) or pa.types.is_list(kind):
        return pa.list_(_small(kind.value_field))
    if pa.types.is_struct(kind):
        return pa.struct([_small(each) for each in kind])
    if pa.types.is_map(kind):
        return pa.map_(_small(kind.key_field), _small(kind.item_field))
    return kind


@contextmanager
def _reaching(name: TableName) -> Iterator[None]:
    """Translate the errors of PyIceberg and of what it calls.

    Their causes are left out: they have the catalog's URL, which may have a password.
    """
    try:
        yield
    except (CommitFailedException, ValidationException) as error:
        raise TableConflict(
            f"{name} was changed by another commit: {without_login(str(error))}"
        ) from None
    except (RESTError, OSError, SQLAlchemyError) as error:
        raise TableUnavailable(
            f"{name} cannot be read or written: {without_login(str(error))}"
        ) from None
    except (ConfigError, LandingError):
        raise
    except (TypeError, ValueError) as error:
        raise LandingError(f"{name} cannot take this: {without_login(str(error))}") from None
