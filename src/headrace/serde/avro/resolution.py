"""Which type of a reader reads which type of a writer: Avro's schema resolution.

Rule 1: names are compared without their namespace, and a reader's alias counts as a name. A record
that is not in a union reads a record of any name, as in Java.
Rule 2: in a reader's union the first branch of the same type that can read the writer's is taken,
one with the same full name before others; without one, the first that promotes it.
Rule 3: a branch of a writer's union that the reader cannot read is no error before it comes.
"""

from headrace.schema.avro.compatibility import PROMOTIONS
from headrace.schema.avro.tree import (
    Array,
    AvroType,
    Enum,
    Field,
    Fixed,
    Map,
    Named,
    Record,
    Union,
)


class Resolution:
    """Answers for one pair of schemas; pairs of types that come up again are looked up."""

    def __init__(self) -> None:
        # With the types, which must outlive their ids.
        self._known: dict[tuple[int, int], tuple[bool, AvroType, AvroType]] = {}

    def is_readable(self, writer: AvroType, reader: AvroType) -> bool:
        """Return whether at least some values of the writer's type can be read."""
        pair = id(writer), id(reader)
        if pair not in self._known:
            self._known[pair] = self._decide(writer, reader), writer, reader
        return self._known[pair][0]

    def branch(self, writer: AvroType, union: Union) -> int | None:
        """Return the branch of a reader's union that reads the type, which is no union."""

        def distance(number: int) -> int:
            found = union.branches[number]
            if found.kind != writer.kind:
                return 2
            if isinstance(found, Named) and isinstance(writer, Named):
                return int(found.name != writer.name)
            return 0

        for number in sorted(range(len(union.branches)), key=distance):
            each = union.branches[number]
            if _is_named_alike(writer, each) and self.is_readable(writer, each):
                return number
        return None

    def _decide(self, writer: AvroType, reader: AvroType) -> bool:
        if writer is reader:
            return True
        match writer, reader:
            case Union(), _:
                return any(self.is_readable(each, reader) for each in writer.branches)
            case _, Union():
                return self.branch(writer, reader) is not None
            case Array(), Array():
                return self.is_readable(writer.items, reader.items)
            case Map(), Map():
                return self.is_readable(writer.values, reader.values)
            case Record(), Record():
                return all(
                    each.has_default if source is None else self.is_readable(source.type, each.type)
                    for each, source in field_pairs(writer, reader)
                )
            case Enum(), Enum():
                return _is_named_alike(writer, reader)
            case Fixed(), Fixed():
                return _is_named_alike(writer, reader) and writer.size == reader.size
        return writer.kind == reader.kind or writer.kind in PROMOTIONS.get(reader.kind, ())


def field_pairs(writer: Record, reader: Record) -> list[tuple[Field, Field | None]]:
    """Return each field of the reader with the writer's field that it reads, if there is one.

    No field of the writer is read twice: that of the same name comes before aliases.
    """
    left = {each.name: each for each in writer.fields}
    sources = {each.name: left.pop(each.name, None) for each in reader.fields}
    for each in reader.fields:
        if sources[each.name] is None:
            alias = next((alias for alias in each.aliases if alias in left), None)
            sources[each.name] = None if alias is None else left.pop(alias)
    return [(each, sources[each.name]) for each in reader.fields]


def symbol_numbers(writer: Enum, reader: Enum) -> list[int]:
    """Return the number of the reader's symbol for each of the writer's, -1 for none."""
    numbers = {symbol: number for number, symbol in enumerate(reader.symbols)}
    default = -1 if reader.default is None else numbers[reader.default]
    return [numbers.get(symbol, default) for symbol in writer.symbols]


def _is_named_alike(writer: AvroType, reader: AvroType) -> bool:
    if not isinstance(writer, Named) or not isinstance(reader, Named):
        return True
    return writer.simple_name == reader.simple_name or writer.name in reader.aliases
