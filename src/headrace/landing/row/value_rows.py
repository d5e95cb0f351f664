"""Rows of values with fields: a column per field, and where the record was in the log."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.client.read.chunk import Chunk
from headrace.landing.error import LandingError
from headrace.landing.row.change import Change, Debezium, NoEnvelope, key_rows, removals_by_key
from headrace.landing.row.column_set import ColumnSet
from headrace.landing.row.decoded import TIME, BadRow, DecodedRows, partition_column, timed_records
from headrace.landing.row.value import ReadValues, ValueReader
from headrace.serde.error import Undecodable

PLACE: Final = pa.schema(
    [
        pa.field("_key", pa.binary()),
        pa.field("_partition", pa.int32(), nullable=False),
        pa.field("_offset", pa.int64(), nullable=False),
        pa.field("_timestamp", TIME, nullable=False),
    ]
)
"""The columns behind those of the values."""

_NO_OBJECT: Final = "it is no JSON object"


class ValueRows:
    """Makes rows of values, which are added, or change rows of the same keys.

    Without keys, a record without a value is a row of nulls; with keys, it removes a row.

    Args:
        make_reader: returns what reads values of some columns; None while there are no columns, if
            values do not name theirs.
        columns: those that are declared; None lets values show them.
        fixed: whether fields that are no columns are left out.
        keys: the columns that name a row.
        envelope: whether values are change events of Debezium.
        infer: returns the columns that the first values show, or None if they show none.
        key_reader: reads keys of change events that name their schemas.
        reserved: names of columns that the table makes itself, beside those of `PLACE`.
    """

    def __init__(
        self,
        make_reader: Callable[[pa.Schema | None], ValueReader | None],
        columns: pa.Schema | None,
        *,
        fixed: bool,
        keys: tuple[str, ...] = (),
        envelope: bool = False,
        infer: Callable[[pa.BinaryArray], pa.Schema | None] = lambda values: None,
        key_reader: ValueReader | None = None,
        reserved: tuple[str, ...] = (),
    ) -> None:
        self._make_reader = make_reader
        self._reader = make_reader(columns)
        self._infer = infer
        self._key_reader = key_reader
        self._keys = keys
        self._envelope = Debezium() if envelope else NoEnvelope()
        self._set = ColumnSet(fixed=fixed, reserved=(*PLACE.names, *reserved))
        if columns is not None:
            self._set.declare(columns)
            self._check_keys()

    @property
    def columns(self) -> pa.Schema | None:
        fields = self._set.fields
        if not fields or any(each not in fields for each in self._keys):
            return None
        return pa.schema([*fields.values(), *PLACE])

    def use(self, columns: pa.Schema) -> None:
        self._set.use(columns)
        self._check_keys()
        self._reader = self._reader or self._make_reader(pa.schema(list(self._set.fields.values())))

    def decode(self, chunk: Chunk) -> DecodedRows:
        records = timed_records(chunk)
        values = records.columns.column("value")
        valid = values.is_valid().to_numpy(zero_copy_only=False)
        present = np.flatnonzero(valid)
        read = self._read(values if len(present) == len(values) else values.drop_null())
        bad: list[BadRow] = [(int(present[each]), why) for each, why in read.bad]
        parts: list[_Part] = []
        for group in read.groups:
            at = present[group.at.to_numpy()]
            for change in self._envelope.changes(at, group.values, bad):
                if change.deleted:
                    record_keys = records.columns.column("key")
                    change = removals_by_key(change, record_keys, self._keys, self._key_reader, bad)
                parts += self._fitted(change, bad)
        if len(present) < len(values):
            parts += self._without_value(np.flatnonzero(~valid), records.columns, bad)
        rows, deleted = self._rows(chunk, records.columns, parts, bad)
        whole = [(int(records.at[each]), why) for each, why in bad]
        return DecodedRows(rows, deleted, sorted([*records.bad, *whole]))

    def _read(self, values: pa.Array) -> ReadValues:
        if self._reader is None and (columns := self._infer(values)) is not None:
            self._set.declare(columns)
            self._check_keys()
            self._reader = self._make_reader(columns)
        if self._reader is None:
            return ReadValues([], [(each, _NO_OBJECT) for each in range(len(values))])
        return self._reader.read(values)

    def _check_keys(self) -> None:
        missing = [each for each in self._keys if each not in self._set.fields]
        if missing and self._set.fields:
            raise LandingError(
                f"there is no column {missing[0]} to upsert by: there are "
                f"{', '.join(self._set.fields)}"
            )

    def _fitted(self, change: Change, bad: list[BadRow]) -> Iterator["_Part"]:
        """Yield columns of a change. If rows do not fit as a whole, halves of them are tried."""
        work = [(0, len(change.at))]
        while work:
            first, past = work.pop()
            values = change.values.slice(first, past - first)
            part = Change(change.at[first:past], values, change.deleted)
            try:
                yield _Part(part.at, self._set.fit(values), part.deleted)
            except Undecodable as error:
                if past - first == 1:
                    bad.append((int(part.at[0]), str(error)))
                else:
                    middle = (first + past) // 2
                    work += [(middle, past), (first, middle)]

    def _without_value(
        self, at: npt.NDArray[np.int64], records: pa.RecordBatch, bad: list[BadRow]
    ) -> list["_Part"]:
        """Return the rows of records that have no value."""
        if not self._keys:
            return [_Part(at, {}, deleted=False)]
        if isinstance(self._envelope, Debezium):
            return []  # the event before it has removed the row
        keys = [self._set.fields[each] for each in self._keys if each in self._set.fields]
        if len(keys) < len(self._keys):
            bad += [(int(each), "it has no value, and no record before it has any") for each in at]
            return []
        change = key_rows(at, records.column("key").take(pa.array(at)), keys, bad)
        return [] if change is None else list(self._fitted(change, bad))

    def _rows(
        self, chunk: Chunk, records: pa.RecordBatch, parts: Sequence["_Part"], bad: list[BadRow]
    ) -> tuple[pa.RecordBatch, pa.BooleanArray | None]:
        """Join parts in the order of the log, and add where records were."""
        fields = list(self._set.fields.values())
        at = np.concatenate([np.empty(0, np.int64), *(each.at for each in parts)])
        marks = [np.full(len(each.at), each.deleted) for each in parts]
        deleted = np.concatenate([np.empty(0, bool), *marks])
        arrays = [_joined(field, parts) for field in fields]
        keep = self._with_keys(at, dict(zip(self._set.fields, arrays, strict=True)), bad)
        order = np.flatnonzero(keep)
        if len(parts) > 1:
            order = order[np.argsort(at[order], kind="stable")]
        if len(parts) > 1 or len(order) < len(at):
            arrays = [each.take(pa.array(order)) for each in arrays]
            at, deleted = at[order], deleted[order]
        places = records.take(pa.array(at))
        arrays += [
            places.column("key"),
            partition_column(chunk, len(at)),
            places.column("offset"),
            places.column("timestamp"),
        ]
        rows = pa.RecordBatch.from_arrays(arrays, schema=pa.schema([*fields, *PLACE]))
        return rows, pa.array(deleted) if self._keys else None

    def _with_keys(
        self, at: npt.NDArray[np.int64], columns: Mapping[str, pa.Array], bad: list[BadRow]
    ) -> npt.NDArray[np.bool_]:
        """Return which rows have all their keys; add the others to `bad`, each once."""
        keep = np.ones(len(at), bool)
        for key in self._keys:
            found = np.zeros(len(at), bool)
            if key in columns:
                found = columns[key].is_valid().to_numpy(zero_copy_only=False)
            bad += [(int(each), f"its key column {key} is null") for each in at[keep & ~found]]
            keep &= found
        return keep


@dataclass(frozen=True, slots=True)
class _Part:
    """Rows of a chunk that have the same columns.

    Attributes:
        at: places among the records.
        columns: by name; those that are missing are null.
        deleted: whether the rows are removed.
    """

    at: npt.NDArray[np.int64]
    columns: Mapping[str, pa.Array]
    deleted: bool


def _joined(field: pa.Field, parts: Sequence[_Part]) -> pa.Array:
    """Return one column of all parts."""
    arrays = [
        each.columns[field.name]
        if field.name in each.columns
        else pa.nulls(len(each.at), field.type)
        for each in parts
    ]
    return pa.concat_arrays(arrays) if arrays else pa.array([], field.type)
