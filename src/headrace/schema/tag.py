"""Tags inside of schemas: words such as PII on records and fields.

A schema names what is tagged by an entity: whether it is a record or a field, and a path whose form
depends on the format. Avro and JSON Schema have tags in the attribute `confluent:tags`, Protobuf in
the options `(confluent.message_meta)` and `(confluent.field_meta)`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, TypeVar

from headrace.schema.error import InvalidSchema

ATTRIBUTE: Final = "confluent:tags"
MAX_PATH_CHARACTERS: Final = 1024
"""What has a longer path is not found: a schema could have a long name and many fields below."""

MAX_TAGGED: Final = 10_000

T = TypeVar("T")


class EntityType(StrEnum):
    """What can be tagged, by Confluent's names."""

    RECORD = "sr_record"
    FIELD = "sr_field"


@dataclass(frozen=True, slots=True)
class Entity:
    """A record or field of a schema. A dot before a path says nothing, and is not kept."""

    path: str
    type: EntityType


Tags = Mapping[Entity, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class TagChange:
    """Which tags come into a schema, and which go.

    Attributes:
        keep: tags of an earlier version, for what is in this one still.
    """

    add: Tags = field(default_factory=dict)
    remove: Tags = field(default_factory=dict)
    keep: Tags = field(default_factory=dict)

    def apply(self, entity: Entity, tags: Iterable[str]) -> tuple[str, ...]:
        """Return the tags of an entity after the change, each once.

        >>> person = Entity("Person", EntityType.RECORD)
        >>> TagChange({person: ("SECRET",)}, {person: ("OLD",)}).apply(person, ["PII", "OLD"])
        ('PII', 'SECRET')
        """
        gone = set(self.remove.get(entity, ()))
        every = (*tags, *self.keep.get(entity, ()), *self.add.get(entity, ()))
        return tuple(each for each in dict.fromkeys(every) if each not in gone)


def tags_of(attributes: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the tags among the attributes of a record, a field or a JSON Schema."""
    found = attributes.get(ATTRIBUTE)
    if not isinstance(found, list):
        return ()
    return tuple(each for each in found if isinstance(each, str))


def change_attribute(attributes: dict[str, Any], entity: Entity, change: TagChange) -> None:
    """Change the tags among attributes; an empty list of them goes."""
    tags = change.apply(entity, tags_of(attributes))
    if tags:
        attributes[ATTRIBUTE] = list(tags)
    else:
        attributes.pop(ATTRIBUTE, None)


def gather(places: Iterable[tuple[Entity, tuple[str, ...]]]) -> dict[Entity, tuple[str, ...]]:
    """Return the entities of a schema that have tags.

    Raises:
        InvalidSchema: they are too many for an answer.
    """
    found: dict[Entity, tuple[str, ...]] = {}
    for entity, tags in places:
        if tags and len(entity.path) <= MAX_PATH_CHARACTERS:
            found.setdefault(entity, tags)
        if len(found) > MAX_TAGGED:
            raise InvalidSchema(f"the schema has more than {MAX_TAGGED} records and fields tagged")
    return found


def pick(places: Iterable[tuple[Entity, T]], change: TagChange) -> dict[Entity, T]:
    """Return where the entities of a change are; of several with one name the first.

    Raises:
        InvalidSchema: one is missing whose tags are to be added or removed.
    """
    needed = change.add.keys() | change.remove.keys()
    found: dict[Entity, T] = {}
    for entity, place in places:
        if entity in needed or entity in change.keep:
            found.setdefault(entity, place)
    for entity in needed - found.keys():
        raise _no_entity(entity)
    return found


def _no_entity(entity: Entity) -> InvalidSchema:
    kind = "record" if entity.type is EntityType.RECORD else "field"
    return InvalidSchema(f"No matching path '{entity.path[:200]}' of a {kind} found in the schema")
