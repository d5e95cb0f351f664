"""Compiles a schema into the program that writes one datum."""

from typing import Final

import numpy as np

from headrace.model.error import InvalidArgument
from headrace.records.kernel.memory import Int64s
from headrace.schema.avro.tree import Array, AvroType, Enum, Fixed, Map, Record, Union
from headrace.serde.avro.column import Column, ColumnTree
from headrace.serde.avro.kernel import op
from headrace.serde.avro.logical import decimal_type
from headrace.serde.avro.nesting import Nesting
from headrace.serde.avro.union import UnionShape

_WRITE: Final = {
    "boolean": op.BOOLEAN,
    "int": op.INT,
    "long": op.LONG,
    "float": op.FLOAT,
    "double": op.DOUBLE,
    "string": op.BYTES,
    "bytes": op.BYTES,
}
# Decimals are written from numbers of 256 bits.
_LIMIT_WORDS: Final = 4


class WriteProgram:
    """The operations, and the columns that they read from.

    Attributes:
        ops: one row for each operation; addresses are not set.
        tables: members of unions and limits of decimals.
        tree: the columns of the type.
        stack_depth: how deep lists lie in lists.

    Raises:
        InvalidArgument: the schema cannot be written from columns.
    """

    def __init__(self, avro: AvroType) -> None:
        Nesting(avro)
        self.tree = ColumnTree(avro)
        self.stack_depth = 0
        self._depth = 0
        self._ops: list[list[int]] = []
        self._tables: list[int] = []
        self._emit(avro, self.tree.root)
        self._op(op.END)
        self.ops: Int64s = np.array(self._ops, dtype=np.int64)
        bits = [number & 0xFFFFFFFFFFFFFFFF for number in self._tables or [0]]
        self.tables: Int64s = np.array(bits, dtype=np.uint64).view(np.int64)

    def _op(
        self, code: int, column: Column | None = None, a: int = 0, b: int = 0, depth: int = 0
    ) -> int:
        number, level = (-1, 0) if column is None else (column.number, column.level)
        self._ops.append([code, 0, 0, level, a, b, depth, number])
        return len(self._ops) - 1

    @property
    def _here(self) -> int:
        return len(self._ops) * op.OP_BYTES

    def _emit(self, avro: AvroType, column: Column) -> None:
        match avro:
            case Union():
                self._union(avro, column)
            case Record():
                self._op(op.CHECK, column)
                for each, child in zip(avro.fields, column.children, strict=True):
                    self._emit(each.type, child)
            case Array():
                self._list(avro.items, column)
            case Map():
                self._list(avro.values, column)
            case Enum():
                self._op(op.ENUM, column)
            case _:
                self._value(avro, column)

    def _value(self, avro: AvroType, column: Column) -> None:
        size = avro.size if isinstance(avro, Fixed) else 0
        decimal = decimal_type(avro)
        if decimal is not None:
            limit = 10**decimal.precision
            table = len(self._tables)
            self._tables += [limit >> 64 * each for each in range(_LIMIT_WORDS)]
            code = op.FIXED_DECIMAL if isinstance(avro, Fixed) else op.DECIMAL
            self._op(code, column, a=table, depth=size)
        elif isinstance(avro, Fixed):
            self._op(op.FIXED, column, a=size)
        elif avro.kind != "null":
            self._op(_WRITE[avro.kind], column)

    def _union(self, union: Union, column: Column) -> None:
        shape = UnionShape.of(union)
        count = len(union.branches)
        if shape.members:
            self._members(union, shape, column)
        elif shape.single is None:
            self._op(op.UNION_INDEX, a=0)
        elif shape.null_index is not None and count == 2:
            start = self._op(op.NULL_OR_VALUE, column, a=shape.null_index)
            self._emit(shape.single, column)
            self._ops[start][op.B] = self._here
        elif shape.null_index is None:
            # One type, or two numbers: all values are written as the wider.
            kinds = [each.kind for each in union.branches]
            self._op(op.UNION_INDEX, a=kinds.index(shape.single.kind))
            self._emit(shape.single, column)
        else:
            raise InvalidArgument(
                "an Avro union of null and two kinds of numbers is read, and not written: "
                "use null and the wider of them"
            )

    def _members(self, union: Union, shape: UnionShape, column: Column) -> None:
        table = len(self._tables)
        self._tables += [0] * (1 + 3 * len(shape.members))
        null = -1 if shape.null_index is None else shape.null_index
        self._op(op.MEMBER, column, a=table, b=len(shape.members), depth=null)
        jumps = []
        for index, branch in enumerate(union.branches):
            member = shape.member(index)
            if member is None:
                continue
            child = column.children[member]
            self._tables[table + 1 + 3 * member : table + 4 + 3 * member] = [
                child.number,
                index,
                self._here,
            ]
            self._emit(branch, child)
            jumps.append(self._op(op.JUMP))
        for jump in jumps:
            self._ops[jump][op.A] = self._here
        self._tables[table] = self._here

    def _list(self, items: AvroType, column: Column) -> None:
        depth = self._depth
        self._depth += 1
        self.stack_depth = max(self._depth, self.stack_depth)
        level = column.items_level
        begin = self._op(op.LIST, column, b=level, depth=depth)
        body = self._here
        if len(column.children) == 2:
            self._op(op.BYTES, column.children[0])
        self._emit(items, column.children[-1])
        self._op(op.ITEM_END, a=body, b=level, depth=depth)
        self._ops[begin][op.A] = self._here
        self._depth -= 1
