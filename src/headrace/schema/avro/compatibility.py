"""Whether a reader with one Avro schema reads what a writer with another has written.

The rules are the specification's schema resolution, as Java's SchemaCompatibility decides it:

1. Names are compared without their namespace; a reader's alias is a full name of the writer's type.
2. A reader's field that the writer lacks needs a default; that of its enum does not help.
3. int reads as long, float, double; long as float, double; float as double; bytes and string as
   each other.
4. A writer's union is readable when each of its branches is. A reader's union reads what one
   branch reads.
5. Logical types are not compared.
"""

from typing import Final

from headrace.schema.avro.tree import (
    Array,
    AvroType,
    Enum,
    Field,
    Fixed,
    Map,
    Named,
    Primitive,
    Record,
    Union,
)
from headrace.schema.incompatibility import Incompatibility, Roles
from headrace.schema.limit import MAX_REASONS, WorkLimit

# What a reader's primitive reads besides itself.
PROMOTIONS: Final = {
    "long": ("int",),
    "float": ("int", "long"),
    "double": ("int", "long", "float"),
    "string": ("bytes",),
    "bytes": ("string",),
}

Reasons = tuple[Incompatibility, ...]


class AvroComparison:
    """Compares one reader's type with one writer's. A pair that comes up again is looked up."""

    def __init__(self, roles: Roles, limit: WorkLimit) -> None:
        self._roles = roles
        self._limit = limit
        self._known: dict[tuple[int, int], Reasons] = {}

    def compare(self, reader: AvroType, writer: AvroType, path: str = "") -> Reasons:
        """Return why the reader cannot read, with paths as JSON pointers; empty if it can."""
        pair = id(reader), id(writer)
        known = self._known.get(pair)
        if known is not None:
            return known
        self._limit.spend(1)
        # A pair met again inside itself is compatible unless something else in it is not.
        self._known[pair] = ()
        reasons = self._reasons(reader, writer, path)[:MAX_REASONS]
        self._known[pair] = reasons
        return reasons

    def _reasons(self, reader: AvroType, writer: AvroType, path: str) -> Reasons:
        match reader, writer:
            case Union(), Union():
                return self._union_by_union(reader, writer, path)
            case _, Union():
                return tuple(
                    each
                    for index, branch in enumerate(writer.branches)
                    for each in self.compare(reader, branch, f"{path}/{index}")
                )
            case Union(), _:
                return self._union_by_one(reader, writer, path)
            case Array(), Array():
                return self.compare(reader.items, writer.items, f"{path}/items")
            case Map(), Map():
                return self.compare(reader.values, writer.values, f"{path}/values")
            case Record(), Record():
                return self._name(reader, writer, path) + self._fields(reader, writer, path)
            case Enum(), Enum():
                return self._name(reader, writer, path) + self._symbols(reader, writer, path)
            case Fixed(), Fixed():
                return self._name(reader, writer, path) + self._size(reader, writer, path)
            case Primitive(), Primitive() if reader.kind == writer.kind:
                return ()
        if writer.kind in PROMOTIONS.get(reader.kind, ()):
            return ()
        return self._because(
            "TYPE_MISMATCH",
            path,
            f"the {self._roles.reader} schema has {_called(reader)} where the"
            f" {self._roles.writer} has {_called(writer)}, which cannot be read as it;"
            " keep the type, or add a field with another name",
        )

    def _union_by_union(self, reader: Union, writer: Union, path: str) -> Reasons:
        self._limit.spend(len(reader.branches) * len(writer.branches))
        reasons: Reasons = ()
        for index, branch in enumerate(writer.branches):
            if len(reasons) > MAX_REASONS:
                break
            if self._union_by_one(reader, branch, path):
                reasons += self._missing_branch(branch, f"{path}/{index}")
        return reasons

    def _union_by_one(self, reader: Union, writer: AvroType, path: str) -> Reasons:
        if any(not self.compare(branch, writer, path) for branch in reader.branches):
            return ()
        return self._missing_branch(writer, path)

    def _missing_branch(self, branch: AvroType, path: str) -> Reasons:
        return self._because(
            "MISSING_UNION_BRANCH",
            path,
            f"the union of the {self._roles.reader} schema has no branch that reads"
            f" {_called(branch)} of the {self._roles.writer}; keep that branch",
        )

    def _name(
        self, reader: Record | Enum | Fixed, writer: Record | Enum | Fixed, path: str
    ) -> Reasons:
        if reader.simple_name == writer.simple_name or writer.name in reader.aliases:
            return ()
        return self._because(
            "NAME_MISMATCH",
            f"{path}/name",
            f"the {reader.kind} is called {reader.name} in the {self._roles.reader} schema and"
            f" {writer.name} in the {self._roles.writer}; keep the name, or give the"
            f" {self._roles.reader} one the alias {writer.name}",
        )

    def _fields(self, reader: Record, writer: Record, path: str) -> Reasons:
        self._limit.spend(len(reader.fields) + len(writer.fields))
        written = {field.name: field for field in writer.fields}
        reasons: Reasons = ()
        for index, field in enumerate(reader.fields):
            if len(reasons) > MAX_REASONS:
                break
            place = f"{path}/fields/{index}"
            source = _source(field, written)
            if source is not None:
                reasons += self.compare(field.type, source.type, f"{place}/type")
            elif _has_enum_default(field):
                reasons += self._because(
                    "TYPE_MISMATCH",
                    f"{place}/type",
                    f"the field {field.name!r} of the {self._roles.reader} schema is not in the"
                    f" {self._roles.writer}, and its enum's default stands in for symbols only;"
                    " give the field a default",
                )
            elif not field.has_default:
                reasons += self._because(
                    "READER_FIELD_MISSING_DEFAULT_VALUE",
                    place,
                    f"the field {field.name!r} of the {self._roles.reader} schema is not in the"
                    f" {self._roles.writer} and has no default; give it a default",
                )
        return reasons

    def _symbols(self, reader: Enum, writer: Enum, path: str) -> Reasons:
        self._limit.spend((len(reader.symbols) + len(writer.symbols)) // 8)
        missing = sorted(set(writer.symbols) - set(reader.symbols))
        if not missing or reader.default is not None:
            return ()
        return self._because(
            "MISSING_ENUM_SYMBOLS",
            f"{path}/symbols",
            f"the enum {reader.name} of the {self._roles.reader} schema lacks"
            f" {', '.join(missing[:10])} of the {self._roles.writer};"
            " keep the symbols, or give the enum a default",
        )

    def _size(self, reader: Fixed, writer: Fixed, path: str) -> Reasons:
        if reader.size == writer.size:
            return ()
        return self._because(
            "FIXED_SIZE_MISMATCH",
            f"{path}/size",
            f"the fixed {reader.name} has {reader.size} bytes in the {self._roles.reader} schema"
            f" and {writer.size} in the {self._roles.writer}; keep the size",
        )

    @staticmethod
    def _because(kind: str, path: str, message: str) -> Reasons:
        return (Incompatibility(kind, path or "/", message),)


def _source(field: Field, written: dict[str, Field]) -> Field | None:
    for name in (field.name, *field.aliases):
        if name in written:
            return written[name]
    return None


def _has_enum_default(field: Field) -> bool:
    is_enum = isinstance(field.type, Enum) and field.type.default is not None
    return is_enum and not field.has_default


def _called(kind: AvroType) -> str:
    return f"{kind.kind} {kind.name}" if isinstance(kind, Named) else kind.kind
