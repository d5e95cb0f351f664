"""Tags in Protobuf schemas. A path is a message's full name, or that and the name of a field.

The name of a oneof may stand before that of its field. Tags are written into a file whose options
name `confluent.message_meta` and `confluent.field_meta`; the import of `confluent/meta.proto` is
added when it is missing.
"""

from collections.abc import Iterator
from typing import Final

from headrace.schema.protobuf.tree import (
    Block,
    Field,
    Message,
    Option,
    Options,
    ProtoFile,
    Text,
    Value,
    Values,
)
from headrace.schema.tag import (
    MAX_PATH_CHARACTERS,
    Entity,
    EntityType,
    TagChange,
    gather,
    pick,
)

_META: Final = {EntityType.RECORD: "message_meta", EntityType.FIELD: "field_meta"}
_IMPORT: Final = "confluent/meta.proto"
_TAGS: Final = "tags"


def find_tags(file: ProtoFile) -> dict[Entity, tuple[str, ...]]:
    """Return what is tagged in a file.

    Raises:
        InvalidSchema: too much of it is.
    """
    return gather((entity, _tags(place.options, entity.type)) for entity, place in _entities(file))


def change_tags(file: ProtoFile, change: TagChange) -> None:
    """Add tags to messages and fields of a file, and remove others.

    Raises:
        InvalidSchema: the file has no such message or field.
    """
    for entity, place in pick(_all_names(file), change).items():
        tags = change.apply(entity, _tags(place.options, entity.type))
        _write_tags(place.options, entity.type, tags)
        if tags and _IMPORT not in (*file.imports, *file.public_imports):
            file.imports.append(_IMPORT)


def _all_names(file: ProtoFile) -> Iterator[tuple[Entity, Message | Field]]:
    yield from _entities(file)
    for name, message in _messages(file):
        for oneof in message.oneofs:
            for each in oneof.fields:
                yield Entity(f"{name}.{oneof.name}.{each.name}", EntityType.FIELD), each


def _entities(file: ProtoFile) -> Iterator[tuple[Entity, Message | Field]]:
    for name, message in _messages(file):
        yield Entity(name, EntityType.RECORD), message
        for each in message.all_fields():
            yield Entity(f"{name}.{each.name}", EntityType.FIELD), each


def _messages(file: ProtoFile) -> Iterator[tuple[str, Message]]:
    """Yield the messages of a file with their full names, in their order."""
    waiting = [(each, file.package) for each in reversed(file.types)]
    while waiting:
        kind, scope = waiting.pop()
        name = f"{scope}.{kind.name}" if scope else kind.name
        if isinstance(kind, Message) and len(name) <= MAX_PATH_CHARACTERS:
            yield name, kind
            waiting += [(each, name) for each in reversed(kind.types)]


def _names(kind: EntityType) -> tuple[str, ...]:
    """Return the names of the option as a whole."""
    return f"(confluent.{_META[kind]})", f"(.confluent.{_META[kind]})"


def _tags(options: Options, kind: EntityType) -> tuple[str, ...]:
    """Return the tags of options; they may come one by one, or in lists."""
    found: list[str] = []
    for option in options:
        if option.name in _names(kind) and isinstance(option.value, Block):
            for key, value in option.value.entries:
                found += _texts(value) if key == _TAGS else ()
        elif option.name in [f"{name}.{_TAGS}" for name in _names(kind)]:
            found += _texts(option.value)
    return tuple(dict.fromkeys(found))


def _texts(value: Value) -> list[str]:
    items = value.items if isinstance(value, Values) else (value,)
    return [each.value for each in items if isinstance(each, Text)]


def _write_tags(options: Options, kind: EntityType, tags: tuple[str, ...]) -> None:
    """Write tags as one list into the option as a whole; what else is in it stays."""
    others: list[tuple[str, Value]] = []
    kept: Options = []
    for option in options:
        if option.name in _names(kind) and isinstance(option.value, Block):
            others += [entry for entry in option.value.entries if entry[0] != _TAGS]
        elif option.name not in [f"{name}.{_TAGS}" for name in _names(kind)]:
            kept.append(option)
    if tags:
        others.append((_TAGS, Values(tuple(Text(each) for each in tags))))
    if others:
        kept.append(Option(_names(kind)[0], Block(tuple(others))))
    options[:] = kept
