"""Chooses how records become rows, by the options of a landing."""

from typing import Final

import pyarrow as pa

from headrace.landing.row.change import Debezium, NoEnvelope
from headrace.landing.row.decoded import RowDecoder
from headrace.landing.row.json_value import JsonReader, inferred_columns
from headrace.landing.row.raw import RawDecoder
from headrace.landing.row.value import ValueReader
from headrace.landing.row.value_rows import ValueRows
from headrace.landing.time_partition import TimePartition
from headrace.model.error import ConfigError
from headrace.serde.registry_client import RegistryClient

VALUES: Final = ("raw", "json", "registry")
"""How values become columns."""


def row_decoder(
    values: str,
    *,
    columns: pa.Schema | None = None,
    keys: tuple[str, ...] = (),
    envelope: str | None = None,
    registry: RegistryClient | None = None,
    partition_by: str | None = None,
) -> RowDecoder:
    """Return what makes rows of a topic's records.

    Args:
        columns: of JSON values; None lets the first records show them.
        keys: the columns that name a row, for upserts.
        envelope: debezium or None.
        registry: for values that name their schemas.
        partition_by: the table's partitions, whose name values cannot have as a column.

    Raises:
        ConfigError: the options do not fit together.
    """
    if values not in VALUES:
        raise ConfigError(f"--as cannot be {values!r}: write {', '.join(VALUES)}")
    check_keys(values, keys, envelope)
    if values != "json" and columns is not None:
        raise ConfigError("--schema declares the columns of JSON values: add --as json")
    if values == "raw":
        return RawDecoder()
    reserved = () if partition_by is None else (TimePartition.parse(partition_by).name,)
    if values == "registry":
        from headrace.landing.row.registry_value import RegistryReader

        if registry is None:
            raise ConfigError("--as registry needs a schema registry: --registry URL")
        reader = RegistryReader(registry)
        return ValueRows(
            lambda columns: reader,
            None,
            fixed=False,
            keys=keys,
            envelope=envelope is not None,
            key_reader=reader,
            reserved=reserved,
        )
    if columns is None and envelope is not None:
        raise ConfigError("change events in JSON need the columns of the rows: --schema 'id INT'")
    return _json(columns, keys, reserved, with_envelope=envelope is not None)


def check_keys(values: str, keys: tuple[str, ...], envelope: str | None) -> None:
    """Check that rows can be changed so.

    Raises:
        ConfigError: the options do not fit together.
    """
    if envelope not in (None, "debezium"):
        raise ConfigError(f"--envelope cannot be {envelope!r}: write debezium")
    if envelope is not None and not keys:
        raise ConfigError("--envelope debezium changes rows: name their keys with --upsert id")
    if keys and values == "raw":
        raise ConfigError("--upsert needs columns: add --as json or --as registry")


def _json(
    columns: pa.Schema | None,
    keys: tuple[str, ...],
    reserved: tuple[str, ...],
    *,
    with_envelope: bool,
) -> RowDecoder:
    around = Debezium() if with_envelope else NoEnvelope()

    def make_reader(schema: pa.Schema | None) -> ValueReader | None:
        return None if schema is None else JsonReader(around.kind(pa.struct(list(schema))))

    return ValueRows(
        make_reader,
        columns,
        fixed=True,
        keys=keys,
        envelope=with_envelope,
        infer=inferred_columns,
        reserved=reserved,
    )
