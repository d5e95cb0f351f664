"""Upserts into an Iceberg table: files that hold changed keys are written again without them."""

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.expressions import (
    AlwaysTrue,
    And,
    BooleanExpression,
    GreaterThanOrEqual,
    LessThanOrEqual,
)
from pyiceberg.io.pyarrow import ArrowScan
from pyiceberg.manifest import DataFile as IcebergFile
from pyiceberg.table import FileScanTask
from pyiceberg.table import Table as Iceberg

from headrace.landing.data_file import DataFile, FileSet, FileTarget, conform
from headrace.landing.table import Changes

_ROW: Final = "row"
_RANGED: Final = (int, str, float)


def replaced_files(
    target: FileTarget, table: Iceberg, changes: Changes
) -> tuple[list[DataFile], list[IcebergFile]]:
    """Write the files that changes need, and return them and the files that they replace.

    Files are read one at a time, and only those whose range of keys holds a changed key.
    """
    touched = pa.concat_tables(
        [changes.rows.select(list(changes.keys)), changes.deleted.select(list(changes.keys))]
    )
    files = FileSet(target)
    removed: list[IcebergFile] = []
    try:
        for task in table.scan(row_filter=_range(touched, changes.keys)).plan_files():
            rows = read_files(table, [task])
            kept = _without(rows, touched, changes.keys)
            if kept is None:
                continue
            removed.append(task.file)
            for batch in kept.to_batches():
                files.write(conform(batch, target.file_schema))
        for batch in changes.rows.to_batches():
            files.write(batch)
        return files.finish(), removed
    except BaseException:
        files.discard()
        raise


def read_files(table: Iceberg, tasks: list[FileScanTask]) -> pa.Table:
    """Return the rows of some files with the table's columns of today."""
    metadata = table.metadata
    return ArrowScan(
        table_metadata=metadata,
        io=table.io,
        projected_schema=metadata.schema(),
        row_filter=AlwaysTrue(),
    ).to_table(tasks=tasks)


def _without(rows: pa.Table, touched: pa.Table, keys: tuple[str, ...]) -> pa.Table | None:
    """Return the rows whose keys are not touched; None if that is all of them."""
    fields = [touched.schema.field(each) for each in keys]
    # Names of our own: a column may have any.
    names = [f"key {at}" for at in range(len(keys))]
    found = rows.select(list(keys)).cast(pa.schema(fields)).rename_columns(names)
    numbered = found.append_column(_ROW, pa.array(np.arange(rows.num_rows)))
    changed = touched.select(list(keys)).rename_columns(names)
    hit = numbered.join(changed, keys=names, join_type="left semi").column(_ROW)
    if len(hit) == 0:
        return None
    return rows.filter(pc.invert(pc.is_in(numbered.column(_ROW), value_set=hit.combine_chunks())))


def _range(touched: pa.Table, keys: tuple[str, ...]) -> BooleanExpression:
    """Return a filter for files that may hold one of the keys."""
    found: BooleanExpression = AlwaysTrue()
    for name, low, high in _edges(touched, keys):
        least = GreaterThanOrEqual(name, low)  # type: ignore[call-arg, arg-type]
        most = LessThanOrEqual(name, high)  # type: ignore[call-arg, arg-type]
        found = And(found, And(least, most))
    return found


def _edges(touched: pa.Table, keys: tuple[str, ...]) -> Iterator[tuple[str, Any, Any]]:
    for name in keys:
        if touched.num_rows == 0:
            continue
        edges = pc.min_max(touched.column(name))
        low, high = edges["min"].as_py(), edges["max"].as_py()
        if isinstance(low, _RANGED) and not isinstance(low, bool):
            yield name, low, high
