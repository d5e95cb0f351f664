"""The columns that a schema becomes, as a tree.

| Avro | Arrow |
|---|---|
| record | struct |
| array, map | list, map |
| null and one other type | that type, nullable |
| int and long, float and double | int64, double |
| any other union | a struct: member0, member1, ..., one nullable field per branch but null |
| enum, fixed | string, binary |

Unions are those of Spark's `from_avro`.
"""

from dataclasses import dataclass, field
from enum import Enum as PythonEnum
from typing import Final

import pyarrow as pa

from headrace.model.error import InvalidArgument
from headrace.schema.avro.tree import Array, AvroType, Enum, Map, Record, Union
from headrace.serde.avro.logical import value_type
from headrace.serde.avro.plain_array import byte_array
from headrace.serde.avro.union import UnionShape

MAX_COLUMNS: Final = 10_000


class Storage(PythonEnum):
    """What a column's entries are while they are read; the value is their size in bytes."""

    NONE = 0
    BYTE = 1
    WORD32 = 4
    WORD64 = 8
    PLACE = -8
    SYMBOL = -4
    ITEMS = -5
    DECIMAL128 = 16
    DECIMAL256 = 32

    @property
    def width(self) -> int:
        return {-8: 8, -4: 4, -5: 4}.get(self.value, self.value)


@dataclass(eq=False, slots=True)
class Column:
    """One column of the tree.

    Attributes:
        number: its place among all columns.
        level: which list its entries are items of; 0 is none, so that they are rows.
        items_level: of a list or map, the level of its items.
        symbols: of an enum, what its numbers stand for.
        default: the bytes and the type of a field's default, which is the value of all its entries
            because the writer does not have the field.
    """

    number: int
    level: int
    type: pa.DataType
    storage: Storage
    nullable: bool = False
    children: "list[Column]" = field(default_factory=list)
    items_level: int = -1
    symbols: pa.Array | None = None
    default: tuple[bytes, AvroType] | None = None

    def field(self, name: str) -> pa.Field:
        """Return the Arrow field of this column."""
        return pa.field(name, self.type, nullable=self.nullable)


class ColumnTree:
    """Makes the columns of a type. `columns` has all of them, a parent before its children."""

    def __init__(self, avro: AvroType) -> None:
        self.columns: list[Column] = []
        self.level_count = 1
        self.root = self._column(avro, 0)

    def _column(self, avro: AvroType, level: int, nullable: bool = False) -> Column:
        if isinstance(avro, Union):
            return self._union(UnionShape.of(avro), level, nullable)
        column = self._new(level, nullable)
        match avro:
            case Record():
                column.children = [self._column(each.type, level) for each in avro.fields]
                names = [each.name for each in avro.fields]
                column.type = _struct(names, column.children)
            case Array():
                self._items(column, avro.items)
                column.type = pa.list_(column.children[0].field("element"))
            case Map():
                self._items(column, avro.values, key=True)
                column.type = pa.map_(pa.string(), column.children[1].field("value"))
            case _:
                column.type = value_type(avro)
                column.storage = _storage(column.type)
                column.nullable = column.nullable or pa.types.is_null(column.type)
                if isinstance(avro, Enum):
                    column.storage = Storage.SYMBOL
                    # No entry of an enum without symbols is ever valid, but each has a symbol.
                    symbols = [each.encode() for each in avro.symbols or ("",)]
                    column.symbols = byte_array(symbols, pa.string())
        return column

    def _new(self, level: int, nullable: bool) -> Column:
        if len(self.columns) >= MAX_COLUMNS:
            raise InvalidArgument(
                f"the Avro schema has more than {MAX_COLUMNS} columns where each use of a named "
                "type counts: leave out fields with a reader's schema"
            )
        column = Column(len(self.columns), level, pa.null(), Storage.NONE, nullable)
        self.columns.append(column)
        return column

    def _items(self, column: Column, items: AvroType, *, key: bool = False) -> None:
        column.storage = Storage.ITEMS
        column.items_level = self.level_count
        self.level_count += 1
        if key:
            text = self._new(column.items_level, False)
            text.type = pa.string()
            text.storage = Storage.PLACE
            column.children.append(text)
        column.children.append(self._column(items, column.items_level))

    def _union(self, shape: UnionShape, level: int, nullable: bool) -> Column:
        nullable = nullable or shape.null_index is not None
        if shape.single is not None:
            return self._column(shape.single, level, nullable)
        column = self._new(level, nullable)
        if not shape.members:
            return column
        column.children = [self._column(each, level, True) for each in shape.members]
        names = [f"member{number}" for number in range(len(column.children))]
        column.type = _struct(names, column.children)
        return column


def _struct(names: list[str], children: list[Column]) -> pa.DataType:
    return pa.struct([each.field(name) for name, each in zip(names, children, strict=True)])


def _storage(kind: pa.DataType) -> Storage:
    if pa.types.is_null(kind):
        return Storage.NONE
    if pa.types.is_boolean(kind):
        return Storage.BYTE
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return Storage.PLACE
    if pa.types.is_decimal256(kind):
        return Storage.DECIMAL256
    if pa.types.is_decimal(kind):
        return Storage.DECIMAL128
    return Storage.WORD32 if kind.bit_width == 32 else Storage.WORD64
