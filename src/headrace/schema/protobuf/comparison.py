"""How two .proto files differ, as far as it breaks a reader.

The file of the writer is `original`, that of the reader is `update`.

1. Fields are compared by number. A new name is no difference, a new type is one unless both types
   are read alike from the wire (SCALAR_GROUPS).
2. Messages are compared by name. One that is gone is a difference; so is another package.
3. Fields come and go, except required ones and those of a oneof that stays.
4. One field may move into a new oneof; two into one, or one into a oneof that had fields before,
   are a difference: a writer may have set both.
5. Enums may change in every way: a reader keeps numbers that it does not know.
"""

from dataclasses import dataclass
from typing import Final

from headrace.schema.limit import MAX_REASONS, WorkLimit, name_limit
from headrace.schema.protobuf.scope import Scope, TypeInfo
from headrace.schema.protobuf.tree import SCALAR_GROUPS, Enum, Field, Message, OneOf

_ENUM_GROUP: Final = "number"


@dataclass(frozen=True, slots=True)
class Difference:
    """A breaking change and where it is: messages by name, fields by number."""

    type: str
    path: tuple[str, ...] = ()


Differences = list[Difference]


class ProtobufComparison:
    """Compares the messages of two scopes. A pair that comes up again is looked up."""

    def __init__(self, original: Scope, update: Scope, limit: WorkLimit) -> None:
        self._limit = limit
        self._names = name_limit()
        self._original = original
        self._update = update
        self._known: dict[tuple[int, int], Differences] = {}

    def types(
        self,
        original: list[Message | Enum],
        update: list[Message | Enum],
        scopes: tuple[str, str],
    ) -> Differences:
        """Compare the messages of a file or of a message; scopes are the full names around them."""
        self._limit.spend((len(original) + len(update)) // 4)
        after = {each.name: each for each in update if isinstance(each, Message)}
        found: Differences = []
        for message in original:
            if not isinstance(message, Message) or message.is_map_entry:
                continue
            if len(found) > MAX_REASONS:
                break
            inner: Differences = [Difference("MESSAGE_REMOVED")]
            if message.name in after:
                self._names.spend(2 * (len(scopes[0]) + len(scopes[1])))
                names = _joined(scopes[0], message.name), _joined(scopes[1], message.name)
                inner = self._message(message, after[message.name], names)
            found += _under(message.name, inner)
        return found

    def _message(self, original: Message, update: Message, scopes: tuple[str, str]) -> Differences:
        pair = id(original), id(update)
        known = self._known.get(pair)
        if known is not None:
            return known
        self._limit.spend(1 + len(original.fields) + len(update.fields) + len(original.types))
        # A pair met again inside itself is compatible unless something else in it is not.
        self._known[pair] = []
        found = self._moves(original, update)
        found += self._oneofs(original, update, scopes)
        found += self._fields(original, update, scopes)
        found += self.types(original.types, update.types, scopes)
        self._known[pair] = found[:MAX_REASONS]
        return self._known[pair]

    def _moves(self, original: Message, update: Message) -> Differences:
        plain = {field.number for field in original.fields}
        in_oneof = {field.number for oneof in original.oneofs for field in oneof.fields}
        found: Differences = []
        for oneof in update.oneofs:
            moved = sum(field.number in plain for field in oneof.fields)
            existing = sum(field.number in in_oneof for field in oneof.fields)
            if moved > 1:
                found.append(Difference("MULTIPLE_FIELDS_MOVED_TO_ONEOF", (oneof.name,)))
            elif moved == 1 and existing:
                found.append(Difference("FIELD_MOVED_TO_EXISTING_ONEOF", (oneof.name,)))
        return found

    def _oneofs(self, original: Message, update: Message, scopes: tuple[str, str]) -> Differences:
        numbers = {field.number for field in update.all_fields()}
        after = {oneof.name: oneof for oneof in update.oneofs}
        found: Differences = []
        for oneof in original.oneofs:
            if oneof.name in after:
                for field in oneof.fields:
                    if field.number not in numbers:
                        path = oneof.name, str(field.number)
                        found.append(Difference("ONEOF_FIELD_REMOVED", path))
                found += _under(oneof.name, self._common(oneof, after[oneof.name], scopes))
        return found

    def _common(self, original: OneOf, update: OneOf, scopes: tuple[str, str]) -> Differences:
        after = {field.number: field for field in update.fields}
        return [
            each
            for field in original.fields
            if field.number in after
            for each in self._field(field, after[field.number], scopes)
        ]

    def _fields(self, original: Message, update: Message, scopes: tuple[str, str]) -> Differences:
        before = {field.number: field for field in original.all_fields()}
        after = {field.number: field for field in update.all_fields()}
        compared = _in_same_oneof(original, update)
        found: Differences = []
        for number in sorted(before.keys() | after.keys()):
            old, new = before.get(number), after.get(number)
            if old is not None and new is not None:
                if number not in compared:
                    found += self._field(old, new, scopes)
            elif old is not None and old.label == "required":
                found.append(Difference("REQUIRED_FIELD_REMOVED", (str(number),)))
            elif new is not None and new.label == "required":
                found.append(Difference("REQUIRED_FIELD_ADDED", (str(number),)))
        return found

    def _field(self, original: Field, update: Field, scopes: tuple[str, str]) -> Differences:
        found: Differences
        old_map, new_map = self._as_map(original, scopes), self._as_map(update, scopes, True)
        if bool(old_map) != bool(new_map):
            found = [Difference("FIELD_KIND_CHANGED")]
        elif old_map and new_map:
            found = self._type(old_map[0], new_map[0], scopes)
            found += self._type(old_map[1], new_map[1], scopes)
        else:
            found = self._type(original.type, update.type, scopes)
            found = found or _label(original, update, self._group(original.type, scopes[0]))
        return _under(str(original.number), found)

    def _as_map(
        self, field: Field, scopes: tuple[str, str], is_update: bool = False
    ) -> tuple[str, str] | None:
        if field.is_map:
            return field.key, field.value
        scope = self._update if is_update else self._original
        found = scope.find(field.type, scopes[is_update])
        if found is None or not isinstance(found.type, Message) or not found.type.is_map_entry:
            return None
        inner = {each.name: each.type for each in found.type.fields}
        return inner.get("key", ""), inner.get("value", "")

    def _type(self, original: str, update: str, scopes: tuple[str, str]) -> Differences:
        old_group = self._group(original, scopes[0])
        new_group = self._group(update, scopes[1], is_update=True)
        if (old_group is None) != (new_group is None):
            return [Difference("FIELD_KIND_CHANGED")]
        if old_group is not None:
            changed = old_group != new_group
            return [Difference("FIELD_SCALAR_KIND_CHANGED")] if changed else []
        old = self._original.find(original, scopes[0])
        new = self._update.find(update, scopes[1])
        if old is None or new is None or old.local_name != new.local_name:
            same = old is new is None and original == update
            return [] if same else [Difference("FIELD_NAMED_TYPE_CHANGED")]
        if old.origin is None and new.origin is None:
            return []  # Compared by their names in the file itself.
        inner = self._named(old, new)
        return [*inner, Difference("FIELD_NAMED_TYPE_CHANGED")] if inner else []

    def _named(self, old: TypeInfo, new: TypeInfo) -> Differences:
        if not isinstance(old.type, Message) or not isinstance(new.type, Message):
            return []
        return self._message(old.type, new.type, (old.name, new.name))

    def _group(self, name: str, scope: str, is_update: bool = False) -> str | None:
        """Return the group of a scalar or enum, None for a message."""
        if name in SCALAR_GROUPS:
            return SCALAR_GROUPS[name]
        found = (self._update if is_update else self._original).find(name, scope)
        return _ENUM_GROUP if found is not None and isinstance(found.type, Enum) else None


def _label(original: Field, update: Field, group: str | None) -> Differences:
    """Compare labels where both have one: a list of numbers is packed, which is other bytes."""
    if group is None or group == "string or bytes" or None in (original.label, update.label):
        return []
    changed = original.label != update.label
    return [Difference("FIELD_NUMERIC_LABEL_CHANGED")] if changed else []


def _in_same_oneof(original: Message, update: Message) -> set[int]:
    before = {(oneof.name, field.number) for oneof in original.oneofs for field in oneof.fields}
    after = {(oneof.name, field.number) for oneof in update.oneofs for field in oneof.fields}
    return {number for _, number in before & after}


def _under(step: str, differences: Differences) -> Differences:
    return [Difference(each.type, (step, *each.path)) for each in differences][:MAX_REASONS]


def _joined(scope: str, name: str) -> str:
    return f"{scope}.{name}" if scope else name
