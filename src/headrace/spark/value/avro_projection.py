"""An Avro type with only the fields that a column needs, to read values of the whole type with."""

import operator
from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

from headrace.model.error import ConfigError
from headrace.schema.avro.tree import Array, AvroType, Map, Record, Union


def projected(avro: AvroType, kind: pa.DataType) -> AvroType:
    """Return the type with the fields of the Arrow type, in its order, at any depth.

    Returns the same object if that is the whole type. Where the two types do not match, Avro's
    stays as it is: whether it can be converted is for Arrow to say.

    Raises:
        ConfigError: the column has a field that the record does not have.
    """
    match avro:
        case Record() if pa.types.is_struct(kind) and kind.num_fields:
            return _record(avro, kind)
        case Union() if sum(each.kind != "null" for each in avro.branches) == 1:
            branches = tuple(projected(each, kind) for each in avro.branches)
            return avro if _are_same(branches, avro.branches) else Union(branches)
        case Array() if pa.types.is_list(kind):
            items = projected(avro.items, kind.value_type)
            return avro if items is avro.items else replace(avro, items=items)
        case Map() if pa.types.is_map(kind):
            values = projected(avro.values, kind.item_type)
            return avro if values is avro.values else replace(avro, values=values)
        case _:
            return avro


def _record(avro: Record, kind: pa.StructType) -> Record:
    known = {each.name: each for each in avro.fields}
    fields = []
    for wanted in kind:
        found = known.get(wanted.name)
        if found is None:
            raise ConfigError(
                f"the schema of the read names the field {wanted.name}, but the Avro record "
                f"{avro.name} has only {', '.join(known) or 'none'}: correct the name, or leave "
                "it out"
            )
        inside = projected(found.type, wanted.type)
        fields.append(found if inside is found.type else replace(found, type=inside))
    return avro if _are_same(fields, avro.fields) else replace(avro, fields=tuple(fields))


def _are_same(some: Sequence[object], others: Sequence[object]) -> bool:
    return len(some) == len(others) and all(map(operator.is_, some, others))
