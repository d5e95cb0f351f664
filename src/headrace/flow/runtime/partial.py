"""Tuples folded into partial totals, in columns, before they leave a task.

A partial row stands for all tuples of one key and, per distinct measure, of one value of its field.
Every other total is a sum, a minimum or a maximum of partial totals. So partial rows can be folded
again, and ten million words leave a task as ten thousand rows.
"""

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from headrace.flow.plan.aggregate import Aggregate, Measure
from headrace.flow.plan.fields import Fields

# So many rows wait before they are folded: waiting costs memory, folding costs time per fold.
_FOLD_ROWS = 200_000
_DISTINCT = ("distinct", "approx_distinct")


class PartialColumns:
    """The columns of partial rows: the key, fields for distinct values, then partial totals.

    `merges` says for each partial column how two of them become one.
    """

    def __init__(self, aggregate: Aggregate, fields: Fields) -> None:
        self.by = aggregate.by
        self.measures = aggregate.measures
        self.kept = {
            f"_d{number}": each.field
            for number, each in enumerate(aggregate.measures.values())
            if each.function in _DISTINCT and each.field is not None
        }
        self.merges: dict[str, str] = {}
        self._made: dict[str, tuple[Measure, str]] = {}
        columns = [f"{name} {fields.ddl_of(name)}" for name in self.by]
        columns += [f"{name} {fields.ddl_of(field)}" for name, field in self.kept.items()]
        for number, (name, each) in enumerate(aggregate.measures.items()):
            for column, kind, merge in _parts(number, name, each, fields):
                columns.append(f"{column} {kind}")
                self.merges[column] = merge
                self._made[column] = each, kind
        self.ddl = ", ".join(columns)
        self.schema = pa.schema(
            [fields.schema.field(name) for name in self.by]
            + [pa.field(name, fields.schema.field(each).type) for name, each in self.kept.items()]
            + [
                pa.field(name, _type(kind, each, fields))
                for name, (each, kind) in self._made.items()
            ]
        )

    def of(self, tuples: pa.RecordBatch) -> pa.Table:
        """Return every tuple as a partial row of its own."""
        arrays = [tuples.column(name) for name in self.by]
        arrays += [tuples.column(field) for field in self.kept.values()]
        for column, (measure, _) in self._made.items():
            if measure.field is None:
                arrays.append(pa.repeat(pa.scalar(1, pa.int64()), tuples.num_rows))
            elif column.startswith("_q"):
                arrays.append(pc.is_valid(tuples.column(measure.field)).cast(pa.int64()))
            else:
                arrays.append(tuples.column(measure.field).cast(self.schema.field(column).type))
        return pa.Table.from_arrays(arrays, schema=self.schema)

    def fold(self, rows: pa.Table) -> pa.Table:
        """Return one row per key and distinct value."""
        keys = [*self.by, *self.kept]
        if not keys:
            rows = rows.append_column("_one", pa.repeat(pa.scalar(0, pa.int8()), rows.num_rows))
        folded = rows.group_by(keys or ["_one"], use_threads=False).aggregate(
            list(self.merges.items())
        )
        names = [*keys, *(f"{column}_{merge}" for column, merge in self.merges.items())]
        return folded.select(names).rename_columns(self.schema.names).cast(self.schema)


def _parts(number: int, name: str, each: Measure, fields: Fields) -> Iterator[tuple[str, str, str]]:
    match each.function:
        case "count":
            yield f"_p{number}", "BIGINT", "sum"
        case "sum":
            yield f"_p{number}", each.ddl(fields, name), "sum"
        case "min" | "max":
            yield f"_p{number}", each.ddl(fields, name), each.function
        case "mean":
            yield f"_p{number}", "DOUBLE", "sum"
            yield f"_q{number}", "BIGINT", "sum"
        case _:
            return


def _type(kind: str, measure: Measure, fields: Fields) -> pa.DataType:
    if measure.function in ("min", "max") and measure.field is not None:
        return fields.schema.field(measure.field).type
    return pa.float64() if kind == "DOUBLE" else pa.int64()


class PartialTotals:
    """Collects the tuples of one task. Bounded by the number of keys and `_FOLD_ROWS`."""

    def __init__(self, columns: PartialColumns) -> None:
        self._columns = columns
        self._waiting: list[pa.Table] = []
        self._rows = 0
        self._folded = 0

    def add(self, tuples: pa.RecordBatch) -> None:
        partial = self._columns.of(tuples)
        self._waiting.append(partial)
        self._rows += partial.num_rows
        # Rows that are folded already count too: with more keys than `_FOLD_ROWS`, the next fold
        # waits for as many new rows.
        if self._rows >= max(_FOLD_ROWS, 2 * self._folded):
            self._waiting = [self._fold()]
            self._rows = self._folded = self._waiting[0].num_rows

    def close(self) -> pa.Table | None:
        """Return the partial rows; None if there were no tuples."""
        return self._fold() if self._waiting else None

    def _fold(self) -> pa.Table:
        return self._columns.fold(pa.concat_tables(self._waiting))
