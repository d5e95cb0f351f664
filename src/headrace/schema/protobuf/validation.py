"""What Protobuf's compiler would refuse in a file that can be read."""

from bisect import bisect_right
from collections.abc import Iterable
from typing import Final

from headrace.schema.error import InvalidSchema
from headrace.schema.limit import MAX_SHOWN_CHARACTERS, WorkLimit, name_limit
from headrace.schema.protobuf.scope import Scope
from headrace.schema.protobuf.tree import (
    MAX_NUMBER,
    SCALAR_GROUPS,
    Enum,
    Field,
    Message,
    ProtoFile,
    Reserved,
)

_OWN_NUMBERS: Final = range(19_000, 20_000)
_KEYS: Final = frozenset(SCALAR_GROUPS) - {"float", "double", "bytes"}


def check_file(file: ProtoFile, scope: Scope) -> None:
    """Raise InvalidSchema for the first fault."""
    names = name_limit()
    for each in scope.own_types():
        if isinstance(each.type, Enum):
            _check_enum(each.type, file, each.name)
        else:
            _check_message(each.type, file, scope, each.name, names)
    for service in file.services:
        for rpc in service.rpcs:
            for name in (rpc.request, rpc.response):
                _check_type(name, scope, file.package, f"the rpc {rpc.name!r}", names)


def _check_message(
    message: Message, file: ProtoFile, scope: Scope, name: str, full_names: WorkLimit
) -> None:
    taken = _Taken(message.reserved)
    names: set[str] = set()
    for oneof in message.oneofs:
        if not oneof.fields:
            raise InvalidSchema(f"the oneof {oneof.name!r} of {name} has no fields")
    for field in message.all_fields():
        where = f"the field {field.name!r} of {name[-MAX_SHOWN_CHARACTERS:]}"
        if field.name in names:
            raise InvalidSchema(f"{name} has two fields {field.name!r}")
        names.add(field.name)
        _check_number(field, taken, where)
        _check_label(field, file, where)
        if field.is_map and field.key not in _KEYS:
            raise InvalidSchema(f"{where} has the key type {field.key}, which no map may have")
        _check_type(field.value if field.is_map else field.type, scope, name, where, full_names)


class _Taken:
    """Numbers and names of one message that are in use or reserved."""

    def __init__(self, reserved: Iterable[list[Reserved]]) -> None:
        values = [value for each in reserved for value in each]
        self.names = {value for value in values if isinstance(value, str)}
        self._firsts: list[int] = []
        self._lasts: list[int] = []
        for first, last in sorted(value for value in values if not isinstance(value, str)):
            # Ranges that overlap become one, so that a number is looked up in one step.
            if self._lasts and first <= self._lasts[-1]:
                self._lasts[-1] = max(last, self._lasts[-1])
            else:
                self._firsts.append(first)
                self._lasts.append(last)
        self.numbers: dict[int, str] = {}

    def is_reserved(self, number: int) -> bool:
        index = bisect_right(self._firsts, number) - 1
        return index >= 0 and number <= self._lasts[index]


def _check_number(field: Field, taken: _Taken, where: str) -> None:
    number = field.number
    if not 1 <= number <= MAX_NUMBER or number in _OWN_NUMBERS:
        raise InvalidSchema(
            f"{where} has the number {number}; it must be 1 to {MAX_NUMBER}, but not 19000 to 19999"
        )
    if number in taken.numbers:
        raise InvalidSchema(f"{where} has the number {number} of {taken.numbers[number]!r}")
    taken.numbers[number] = field.name
    if taken.is_reserved(number) or field.name in taken.names:
        raise InvalidSchema(f"{where} = {number} is reserved; use another name and number")


def _check_label(field: Field, file: ProtoFile, where: str) -> None:
    if field.label == "required" and file.syntax not in (None, "proto2"):
        raise InvalidSchema(f"{where} is required, which only proto2 has")
    if field.is_group and file.syntax not in (None, "proto2"):
        raise InvalidSchema(f"{where} is a group, which only proto2 has")


def _check_type(name: str, scope: Scope, inside: str, where: str, names: WorkLimit) -> None:
    if name in SCALAR_GROUPS:
        return
    found = scope.find(name, inside)
    if found is not None:
        # The normalised text and the descriptor write it in full, each time.
        names.spend(len(found.name))
    else:
        raise InvalidSchema(
            f"{where} has the type {name!r}, which is not known; define it, or import its file"
        )


def _check_enum(enum: Enum, file: ProtoFile, name: str) -> None:
    if not enum.constants:
        raise InvalidSchema(f"the enum {name} has no constants")
    if file.syntax == "proto3" and enum.constants[0].number != 0:
        raise InvalidSchema(f"the first constant of the enum {name} must be 0 in proto3")
    names = {each.name for each in enum.constants}
    if len(names) < len(enum.constants):
        raise InvalidSchema(f"the enum {name} has a constant twice")
    numbers = {each.number for each in enum.constants}
    aliased = any(each.name == "allow_alias" for each in enum.options)
    if len(numbers) < len(enum.constants) and not aliased:
        raise InvalidSchema(f"the enum {name} has a number twice; set allow_alias, or change it")
    if any(not -(1 << 31) <= number < 1 << 31 for number in numbers):
        raise InvalidSchema(f"a number of the enum {name} does not fit into 32 bits")
