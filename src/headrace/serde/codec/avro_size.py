"""How few bytes a value of an Avro type takes.

An array says how many items follow. Where an item takes no byte, five bytes can claim a billion of
them, and a reader that believes it fills the memory.
"""

from headrace.schema.avro.tree import Array, AvroType, Fixed, Map, Primitive, Record, Union

_PRIMITIVES = {"null": 0, "float": 4, "double": 8}


def has_items_without_bytes(root: AvroType) -> bool:
    """Return whether a value of few bytes may hold any number of items.

    A map has none: each entry has a key, which takes a byte at least.
    """
    seen: set[int] = set()
    waiting = [root]
    while waiting:
        each = waiting.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        match each:
            case Array():
                if _least_bytes(each.items, set()) == 0:
                    return True
                waiting.append(each.items)
            case Map():
                waiting.append(each.values)
            case Union():
                waiting += each.branches
            case Record():
                waiting += [field.type for field in each.fields]
    return False


def _least_bytes(kind: AvroType, inside: set[int]) -> int:
    match kind:
        case Primitive():
            return _PRIMITIVES.get(kind.kind, 1)
        case Fixed():
            return kind.size
        case Record():
            if id(kind) in inside:
                return 0
            inside.add(id(kind))
            # One field with a byte is enough to know.
            found = next(
                (size for field in kind.fields if (size := _least_bytes(field.type, inside))), 0
            )
            inside.discard(id(kind))
            return found
        case _:
            return 1
