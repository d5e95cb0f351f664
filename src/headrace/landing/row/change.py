"""What a value changes: the row itself, or a change event around it."""

import base64
import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.landing.row.decoded import BadRow
from headrace.landing.row.value import ValueReader
from headrace.serde.wire_format import framing_of

_DELETE: Final = "d"
_WRITES: Final = ("c", "r", "u")
# What Debezium sends for a large value that did not change and that PostgreSQL did not log.
_UNAVAILABLE: Final = b"__debezium_unavailable_value"
_UNAVAILABLE_FORMS: Final = (_UNAVAILABLE, base64.b64encode(_UNAVAILABLE))


@dataclass(frozen=True, slots=True)
class Change:
    """Rows that are written, or whose keys are removed.

    Attributes:
        at: places among the records.
        values: structs; the keys count where they are removed.
    """

    at: npt.NDArray[np.int64]
    values: pa.StructArray
    deleted: bool


class Envelope(Protocol):
    """Finds the rows in values."""

    def kind(self, row: pa.StructType) -> pa.StructType:
        """Return the type of values that hold rows of a type, for JSON."""

    def changes(
        self, at: npt.NDArray[np.int64], values: pa.StructArray, bad: list[BadRow]
    ) -> Iterator[Change]:
        """Yield what values change; add those that change nothing to `bad`."""


class NoEnvelope:
    """A value is a row."""

    def kind(self, row: pa.StructType) -> pa.StructType:
        return row

    def changes(
        self, at: npt.NDArray[np.int64], values: pa.StructArray, bad: list[BadRow]
    ) -> Iterator[Change]:
        yield Change(at, values, deleted=False)


class Debezium:
    """A change event of Debezium: `before`, `after` and `op`, in `payload` if schemas are sent.

    `c`, `r` and `u` write the row `after`; `d` removes the row whose key `before` has (see
    `removals_by_key`). A row with
    the placeholder of a value that was not logged is not written: it would replace the good value.
    """

    def kind(self, row: pa.StructType) -> pa.StructType:
        event = [("before", row), ("after", row), ("op", pa.string())]
        return pa.struct([*event, ("payload", pa.struct(event))])

    def changes(
        self, at: npt.NDArray[np.int64], values: pa.StructArray, bad: list[BadRow]
    ) -> Iterator[Change]:
        if values.type.get_field_index("payload") >= 0:
            inner = pc.struct_field(values, "payload")
            wrapped = inner.is_valid().to_numpy(zero_copy_only=False)
            if wrapped.any():
                yield from self._events(at[wrapped], inner.filter(pa.array(wrapped)), bad)
                at, values = at[~wrapped], values.filter(pa.array(~wrapped))
        yield from self._events(at, values, bad)

    def _events(
        self, at: npt.NDArray[np.int64], events: pa.StructArray, bad: list[BadRow]
    ) -> Iterator[Change]:
        if not len(at):
            return
        missing = [
            each for each in ("before", "after", "op") if events.type.get_field_index(each) < 0
        ]
        if missing:
            bad += [(int(each), f"it is no change event: no {missing[0]}") for each in at]
            return
        kinds = pc.fill_null(pc.struct_field(events, "op"), "")
        writes = pc.is_in(kinds, value_set=pa.array(_WRITES))
        removes = pc.equal(kinds, _DELETE)
        for mask, name, deleted in ((writes, "after", False), (removes, "before", True)):
            rows = pc.struct_field(events, name)
            usable = pc.and_(mask, rows.is_valid())
            chosen = usable.to_numpy(zero_copy_only=False)
            lacking = pc.and_(mask, rows.is_null()).to_numpy(zero_copy_only=False)
            bad += [(int(each), f"its change event has no {name}") for each in at[lacking]]
            if not deleted:
                chosen &= ~_unavailable(at, rows, chosen, bad)
                usable = pa.array(chosen)
            if chosen.any():
                yield Change(at[chosen], rows.filter(usable), deleted)
        other = pc.invert(pc.or_(writes, removes)).to_numpy(zero_copy_only=False)
        for each, op in zip(at[other], kinds.filter(pa.array(other)).to_pylist(), strict=True):
            bad.append((int(each), f"its change event has the op {op!r}, which changes no row"))


def _unavailable(
    at: npt.NDArray[np.int64],
    rows: pa.StructArray,
    chosen: npt.NDArray[np.bool_],
    bad: list[BadRow],
) -> npt.NDArray[np.bool_]:
    """Return which rows have a value that the database did not log; add those chosen to `bad`."""
    found = np.zeros(len(rows), bool)
    for place, each in enumerate(rows.type):
        column = pc.struct_field(rows, [place])
        parents = None
        if pa.types.is_list(column.type):
            parents = pc.list_parent_indices(column).to_numpy()
            column = column.flatten()
        if not (pa.types.is_string(column.type) or pa.types.is_binary(column.type)):
            continue
        forms = pa.array(_UNAVAILABLE_FORMS, pa.binary()).cast(column.type)
        hit = pc.is_in(column, value_set=forms).to_numpy(zero_copy_only=False)
        if parents is not None:
            lists, hit = parents[hit], np.zeros(len(rows), bool)
            hit[lists] = True
        new = hit & chosen & ~found
        bad += [
            (
                int(row),
                f"its change event lacks the value of {each.name}, which did not change: "
                "ALTER TABLE ... REPLICA IDENTITY FULL lets PostgreSQL log it",
            )
            for row in at[new]
        ]
        found |= new
    return found


def removals_by_key(
    change: Change,
    keys: pa.Array,
    columns: Sequence[str],
    key_reader: ValueReader | None,
    bad: list[BadRow],
) -> Change:
    """Return the removals of change events whose records' keys have the columns that name a row;
    add the others to `bad`.

    A database that logs only the key of a removed row leaves the other columns of `before` null, or
    zero, empty or their default where they are NOT NULL: by these another row would be removed.
    Keys that are JSON objects, also in Connect's `payload`, and keys that name their schemas are
    looked at: others do not name their columns.

    Args:
        keys: those of all records.
        columns: the columns that name a row.
        key_reader: reads keys that name their schemas; without it they remove nothing.
    """
    chosen = np.ones(len(change.at), bool)
    for place, found in enumerate(_key_columns(keys.take(pa.array(change.at)), key_reader)):
        why = found if isinstance(found, str) else None
        if found is not None and why is None:
            lacking = [each for each in columns if each not in found]
            if lacking:
                why = (
                    f"its key has no {', '.join(lacking)}: name the columns of the key in --upsert "
                    "(headrace.table.keys)"
                )
        if why is not None:
            chosen[place] = False
            bad.append((int(change.at[place]), f"its change event removes a row, and {why}"))
    if chosen.all():
        return change
    return Change(change.at[chosen], change.values.filter(pa.array(chosen)), deleted=True)


def _key_columns(
    keys: pa.Array, key_reader: ValueReader | None
) -> list[Collection[str] | str | None]:
    """Return the columns of each key, or why they are not known; None if it names none."""
    texts = keys.to_pylist()
    found: list[Collection[str] | str | None] = [_key_object(each) for each in texts]
    framed = [at for at, key in enumerate(texts) if key is not None and framing_of(key) is not None]
    if key_reader is None:
        for each in framed:
            found[each] = (
                "its key names a schema, which only --as registry (headrace.table.format=registry) "
                "reads: send JSON keys"
            )
    elif framed:
        read = key_reader.read(keys.take(pa.array(framed)))
        for group in read.groups:
            names = [field.name for field in group.values.type]
            for at in group.at.to_pylist():
                found[framed[at]] = names
        for at, why in read.bad:
            found[framed[at]] = f"its key cannot be read: {why}"
    return found


def _key_object(key: bytes | None) -> dict[str, Any] | None:
    """Return a key that is a JSON object; None for any other."""
    if key is None or not key.lstrip().startswith(b"{"):
        return None
    try:
        found = json.loads(key)
    except (ValueError, RecursionError):
        return None
    if isinstance(found.get("payload"), dict):
        found = found["payload"]
    return dict(found)


def key_rows(
    at: npt.NDArray[np.int64], keys: pa.Array, columns: Sequence[pa.Field], bad: list[BadRow]
) -> Change | None:
    """Return the removal of rows by JSON keys, for records without a value.

    A key is an object with the columns, or Connect's object with a `payload`, or, for a single
    column, the bare value: of a column of text, any other key is the text itself, also 42 and true.
    """
    names = [each.name for each in columns]
    found: list[pa.Array] = []
    places: list[int] = []
    for place, key in zip(at.tolist(), keys.to_pylist(), strict=True):
        row = _key_row(key, names, is_text=pa.types.is_string(columns[0].type))
        try:
            if row is not None:
                found.append(pa.array([row], pa.struct(columns)))
                places.append(place)
                continue
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
            pass
        bad.append((place, f"it has no value, and its key has no {', '.join(names)}"))
    if not found:
        return None
    return Change(np.array(places, np.int64), pa.concat_arrays(found), deleted=True)


def _key_row(key: bytes | None, names: Sequence[str], *, is_text: bool) -> dict[str, Any] | None:
    if key is None:
        return None
    try:
        found = json.loads(key)
    except (ValueError, RecursionError):
        found = None if len(names) > 1 else key.decode(errors="replace")
    if is_text and len(names) == 1 and not isinstance(found, dict | str):
        found = key.decode(errors="replace")
    if isinstance(found, dict) and isinstance(found.get("payload"), dict):
        found = found["payload"]
    if isinstance(found, dict):
        return (
            {each: found[each] for each in names} if all(map(found.__contains__, names)) else None
        )
    return {names[0]: found} if len(names) == 1 and isinstance(found, str | int) else None
