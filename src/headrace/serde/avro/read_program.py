"""Compiles a writer's and a reader's schema into the program that reads one datum."""

from collections.abc import Callable
from typing import Final

import numpy as np

from headrace.model.error import InvalidArgument
from headrace.records.kernel.memory import Int64s
from headrace.schema.avro.tree import (
    Array,
    AvroType,
    Enum,
    Fixed,
    Map,
    Named,
    Primitive,
    Record,
    Union,
)
from headrace.serde.avro.column import Column, ColumnTree
from headrace.serde.avro.default import default_bytes
from headrace.serde.avro.kernel import op
from headrace.serde.avro.logical import decimal_type, value_bound
from headrace.serde.avro.nesting import Nesting
from headrace.serde.avro.resolution import Resolution, field_pairs, symbol_numbers
from headrace.serde.avro.union import UnionShape

MAX_OPS: Final = 50_000

_READ: Final = {
    ("boolean", "boolean"): op.BOOLEAN,
    ("int", "int"): op.INT,
    ("int", "long"): op.INT_AS_LONG,
    ("int", "float"): op.INT_AS_FLOAT,
    ("int", "double"): op.INT_AS_DOUBLE,
    ("long", "long"): op.LONG,
    ("long", "float"): op.LONG_AS_FLOAT,
    ("long", "double"): op.LONG_AS_DOUBLE,
    ("float", "float"): op.FLOAT,
    ("float", "double"): op.FLOAT_AS_DOUBLE,
    ("double", "double"): op.DOUBLE,
    ("string", "string"): op.STRING,
    ("bytes", "string"): op.STRING,
    ("bytes", "bytes"): op.BYTES,
    ("string", "bytes"): op.BYTES,
}
_SKIP: Final = {
    "boolean": op.SKIP_BOOLEAN,
    "int": op.SKIP_INT,
    "long": op.SKIP_LONG,
    "bytes": op.SKIP_BYTES,
    "string": op.SKIP_BYTES,
}
_SKIPPED_BYTES: Final = {"float": 4, "double": 8}


class ReadProgram:
    """The operations, and the columns that they write to.

    Attributes:
        ops: one row for each operation; addresses are not set.
        tables: targets of branches, numbers of symbols, limits of decimals.
        tree: the columns of the reader's type.
        levels: how many positions there are: those of the columns, and one for lists that are read
            and not kept.
        fewest_item_bytes: for each level, how many bytes an item takes at least.
        stack_depth: how deep lists lie in lists.

    Raises:
        InvalidArgument: the reader's schema cannot read the writer's, or a schema cannot be read
            into columns at all.
    """

    def __init__(self, writer: AvroType, reader: AvroType) -> None:
        self._nesting = Nesting(writer)
        if reader is not writer:
            Nesting(reader)
        self._resolution = Resolution()
        self.tree = ColumnTree(reader)
        self.levels = self.tree.level_count + 1
        self.fewest_item_bytes = [1 << 30] * self.levels
        self.stack_depth = 0
        self._depth = 0
        self._read: set[int] = set()
        self._ops: list[list[int]] = []
        self._tables: list[int] = []
        self._emit(writer, reader, self.tree.root, "the schema")
        self._op(op.END)
        self.ops: Int64s = np.array(self._ops, dtype=np.int64)
        bits = [number & 0xFFFFFFFFFFFFFFFF for number in self._tables or [0]]
        self.tables: Int64s = np.array(bits, dtype=np.uint64).view(np.int64)

    def _op(
        self, code: int, column: Column | None = None, a: int = 0, b: int = 0, depth: int = 0
    ) -> int:
        if len(self._ops) >= MAX_OPS:
            raise InvalidArgument(
                f"the Avro schema takes more than {MAX_OPS} operations per value where each use of "
                "a named type counts: make it smaller"
            )
        number, level = (-1, 0) if column is None else (column.number, column.level)
        self._ops.append([code, 0, 0, level, a, b, depth, number])
        return len(self._ops) - 1

    @property
    def _here(self) -> int:
        return len(self._ops) * op.OP_BYTES

    def _emit(self, writer: AvroType, reader: AvroType, column: Column, where: str) -> None:
        self._read.add(column.number)
        if isinstance(writer, Union):
            self._writer_union(writer, reader, column, where)
        elif isinstance(reader, Union):
            self._reader_union(writer, reader, column, where)
        else:
            self._value(writer, reader, column, where)

    def _writer_union(self, writer: Union, reader: AvroType, column: Column, where: str) -> None:
        readable = [self._resolution.is_readable(each, reader) for each in writer.branches]
        if not any(readable):
            raise _mismatch(writer, reader, where)
        shape = UnionShape.of(writer)
        null, other = shape.null_index, shape.single
        if (
            all(readable)
            and null is not None
            and other is not None
            and len(writer.branches) == 2
            and isinstance(reader, Union)
            and column.nullable
        ):
            start = self._op(op.NULLABLE, column, a=null)
            self._reader_union(other, reader, column, where, is_valid=True)
            self._ops[start][op.B] = self._here
            return

        def branch(number: int) -> None:
            if readable[number]:
                self._emit(writer.branches[number], reader, column, where)
            else:
                self._op(op.FAIL)

        self._branches(len(writer.branches), branch)

    def _branches(self, count: int, emit: Callable[[int], None]) -> None:
        """Write the operations of each branch, and a jump behind the last from each."""
        table = len(self._tables)
        self._tables += [0] * count
        self._op(op.BRANCH, a=table, b=count)
        jumps = []
        for number in range(count):
            self._tables[table + number] = self._here
            emit(number)
            jumps.append(self._op(op.JUMP))
        for jump in jumps:
            self._ops[jump][op.A] = self._here

    def _reader_union(
        self,
        writer: AvroType,
        reader: AvroType,
        column: Column,
        where: str,
        *,
        is_valid: bool = False,
    ) -> None:
        assert isinstance(reader, Union)
        found = self._resolution.branch(writer, reader)
        if found is None:
            raise _mismatch(writer, reader, where)
        shape = UnionShape.of(reader)
        if found == shape.null_index:
            return
        if column.nullable and not is_valid:
            self._op(op.SET_VALID, column)
        member = shape.member(found)
        if member is not None:
            child = column.children[member]
            self._op(op.SET_VALID, child)
            self._value(writer, reader.branches[found], child, where)
        else:
            assert shape.single is not None
            self._value(writer, shape.single, column, where)

    def _value(self, writer: AvroType, reader: AvroType, column: Column, where: str) -> None:
        nested = isinstance(writer, Record | Array | Map) and writer.kind == reader.kind
        if not nested and not self._resolution.is_readable(writer, reader):
            raise _mismatch(writer, reader, where)
        match writer, reader:
            case Record(), Record():
                self._record(writer, reader, column, where)
            case Array(), Array():
                self._list(writer.items, reader.items, column, where)
            case Map(), Map():
                self._list(writer.values, reader.values, column, where)
            case Enum(), Enum():
                table = len(self._tables)
                self._tables += symbol_numbers(writer, reader)
                self._op(op.ENUM, column, a=table, b=len(writer.symbols))
            case Fixed(), Fixed():
                if decimal_type(reader) is None:
                    self._op(op.FIXED, column, a=writer.size)
                else:
                    self._decimal(op.FIXED_DECIMAL, column, writer.size)
            case Primitive(), Primitive():
                if decimal_type(reader) is not None:
                    self._decimal(op.DECIMAL, column)
                elif writer.kind != "null":
                    code = _READ[writer.kind, reader.kind]
                    self._op(code, column, b=value_bound(column.type))

    def _decimal(self, code: int, column: Column, size: int = 0) -> None:
        words = column.storage.width // 8
        limit = 10**column.type.precision
        table = len(self._tables)
        self._tables += [limit >> 64 * number & 0xFFFFFFFFFFFFFFFF for number in range(words)]
        self._op(code, column, a=table, b=words, depth=size)

    def _record(self, writer: Record, reader: Record, column: Column, where: str) -> None:
        targets = {}
        for (each, source), child in zip(field_pairs(writer, reader), column.children, strict=True):
            if source is not None:
                targets[source.name] = (each, child)
                continue
            if not each.has_default:
                raise InvalidArgument(
                    f"the writer's Avro record {writer.name!r} has no field {each.name!r}, and the "
                    f"reader's has no default for it ({where}): give it one"
                )
            child.default = default_bytes(each.default, each.type), each.type
        for written in writer.fields:
            if written.name in targets:
                each, child = targets[written.name]
                self._emit(written.type, each.type, child, f"the field {each.name!r} of {where}")
            else:
                self._skip(written.type)
        for child in column.children:
            if child.default is not None and child.number in self._read:
                raise InvalidArgument(
                    f"only some branches of a writer's Avro union have all fields of the reader's "
                    f"record {reader.name!r}: give the reader a record for each branch"
                )

    def _list(self, writer: AvroType, reader: AvroType, column: Column, where: str) -> None:
        level = column.items_level

        def items() -> None:
            if len(column.children) == 2:
                self._op(op.STRING, column.children[0])
            self._emit(writer, reader, column.children[-1], f"the items of {where}")

        fewest = self._nesting.fewest_bytes(writer) + len(column.children) - 1
        self.fewest_item_bytes[level] = min(fewest, self.fewest_item_bytes[level])
        self._loop(column, level, items)

    def _loop(self, column: Column | None, level: int, items: Callable[[], None]) -> None:
        depth = self._depth
        self._depth += 1
        self.stack_depth = max(self._depth, self.stack_depth)
        begin = self._op(op.LIST, column, b=level, depth=depth)
        body = self._here
        items()
        self._op(op.ITEM_END, a=body, b=level, depth=depth)
        self._ops[begin][op.A] = self._here
        self._op(op.BLOCK, column, a=body, b=level, depth=depth)
        self._depth -= 1

    def _skip(self, writer: AvroType) -> None:
        match writer:
            case Record():
                for each in writer.fields:
                    self._skip(each.type)
            case Union():
                self._branches(
                    len(writer.branches), lambda number: self._skip(writer.branches[number])
                )
            case Array():
                fewest = self._nesting.fewest_bytes(writer.items)
                self.fewest_item_bytes[-1] = min(fewest, self.fewest_item_bytes[-1])
                self._loop(None, self.levels - 1, lambda: self._skip(writer.items))
            case Map():
                self._loop(None, self.levels - 1, lambda: self._skip_entry(writer.values))
            case Enum():
                self._op(op.SKIP_ENUM, b=len(writer.symbols))
            case Fixed():
                self._op(op.SKIP_FIXED, a=writer.size)
            case Primitive(kind=("float" | "double") as kind):
                self._op(op.SKIP_FIXED, a=_SKIPPED_BYTES[kind])
            case Primitive(kind=kind) if kind != "null":
                self._op(_SKIP[kind])

    def _skip_entry(self, values: AvroType) -> None:
        self._op(op.SKIP_BYTES)
        self._skip(values)


def _mismatch(writer: AvroType, reader: AvroType, where: str) -> InvalidArgument:
    return InvalidArgument(
        f"the reader's Avro schema has {_name(reader)} where the writer's has {_name(writer)} "
        f"({where}), which it cannot read"
    )


def _name(avro: AvroType) -> str:
    if isinstance(avro, Named):
        return f"the {avro.kind} {avro.name!r}"
    if isinstance(avro, Union):
        return "a union of " + ", ".join(each.kind for each in avro.branches)
    return avro.kind
