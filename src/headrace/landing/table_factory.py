"""Opens and creates tables of either kind."""

from collections.abc import Mapping

import pyarrow as pa

from headrace.landing.error import LandingError
from headrace.landing.row.table_column import check_columns
from headrace.landing.source import Source
from headrace.landing.table import Table
from headrace.landing.time_partition import TimePartition
from headrace.model.error import ConfigError
from headrace.model.table.table_name import TableKind, TableName


def open_table(name: TableName, catalog: Mapping[str, str]) -> Table | None:
    """Return a table; None if there is none of this name.

    Args:
        catalog: properties of an Iceberg catalog, beside those of PyIceberg's own configuration.

    Raises:
        ConfigError: the package of this kind of table is missing, or the catalog is not configured.
        LandingError: it is no table of `headrace land`.
        TableUnavailable: it cannot be read.
    """
    try:
        if name.kind is TableKind.DELTA:
            from headrace.landing.delta_table import DeltaLanding

            return DeltaLanding.open(name)
        from headrace.landing.iceberg_table import IcebergLanding

        return IcebergLanding.open(name, catalog)
    except ModuleNotFoundError as error:
        raise _missing(error) from error


def create_table(
    name: TableName,
    catalog: Mapping[str, str],
    columns: pa.Schema,
    source: Source,
    offsets: Mapping[int, int],
) -> Table:
    """Create a table that has no rows yet, and continues at the given offsets.

    Raises:
        ConfigError: as `open_table`.
        LandingError: there is such a table, or it cannot have these columns.
    """
    check_columns(columns)
    if source.partition_by is not None:
        TimePartition.parse(source.partition_by).check(columns)
    try:
        if name.kind is TableKind.DELTA:
            from headrace.landing.delta_table import DeltaLanding

            return DeltaLanding.create(name, columns, source, offsets)
        from headrace.landing.iceberg_table import IcebergLanding

        return IcebergLanding.create(name, catalog, columns, source, offsets)
    except ModuleNotFoundError as error:
        raise _missing(error) from error


def existing_table(name: TableName, catalog: Mapping[str, str]) -> Table:
    """Return a table that must be there.

    Raises:
        LandingError: it is not.
    """
    found = open_table(name, catalog)
    if found is None:
        raise LandingError(f"there is no table {name}: headrace land TOPIC --table makes one")
    return found


def _missing(error: ModuleNotFoundError) -> ConfigError:
    return ConfigError(
        f"tables need the package {error.name}: install it with pip install 'headrace[tables]'"
    )
