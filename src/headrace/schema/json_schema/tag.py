"""Tags in JSON Schemas.

A path tells the way to a schema in the document: `object` and the name of a property, or
`object.definitions` (`$defs`) and a name; `array` for what `items` holds; `oneof`, `anyof` or
`allof` and an index, counted in the order of the document; `not`; `allof.0.conditional` and `if`,
`then` or `else`. So `object.person.object.name` is the property `name` of the property `person`.
The document's own schema is the record `object`. References (`$ref`) are not followed.
"""

from collections.abc import Iterator
from typing import Any, Final

from headrace.schema.tag import (
    MAX_PATH_CHARACTERS,
    Entity,
    EntityType,
    TagChange,
    change_attribute,
    gather,
    pick,
    tags_of,
)

Schema = dict[str, Any]

_COMBINED: Final = {"anyOf": "anyof", "allOf": "allof", "oneOf": "oneof"}
_CONDITIONAL: Final = "allof.0.conditional"
_DEFINITIONS: Final = ("definitions", "$defs")


def find_tags(document: Any) -> dict[Entity, tuple[str, ...]]:
    """Return what is tagged in a document.

    Raises:
        InvalidSchema: too much of it is.
    """
    return gather((entity, tags_of(schema)) for entity, schema in _schemas(document))


def change_tags(document: Any, change: TagChange) -> None:
    """Add tags to schemas of a document, and remove others.

    Raises:
        InvalidSchema: it has no such schema.
    """
    for entity, schema in pick(_all_names(document), change).items():
        change_attribute(schema, entity, change)


def _all_names(document: Any) -> Iterator[tuple[Entity, Schema]]:
    """Yield the schemas of a document by each name: a property can be a record as well."""
    for entity, schema in _schemas(document):
        yield entity, schema
        if entity.type is EntityType.FIELD:
            yield Entity(f"{entity.path}.object", EntityType.RECORD), schema
        else:
            yield Entity(entity.path, EntityType.FIELD), schema


def _schemas(document: Any) -> Iterator[tuple[Entity, Schema]]:
    """Yield the schemas of a document that can have tags, with what they are called."""
    if not isinstance(document, dict):
        return
    yield Entity("object", EntityType.RECORD), document
    waiting = [(document, "")]
    while waiting:
        schema, path = waiting.pop()
        if len(path) > MAX_PATH_CHARACTERS:
            continue
        for entity, inner in _inner(schema, path):
            yield entity, inner
            at = entity.path
            is_record = entity.type is EntityType.RECORD and at.endswith(".object")
            waiting.append((inner, at.removesuffix("object") if is_record else f"{at}."))


def _inner(schema: Schema, path: str) -> Iterator[tuple[Entity, Schema]]:
    """Yield the schemas right inside of one, whose path ends with a dot, or is empty."""
    for name, each in _members(schema.get("properties")):
        yield Entity(f"{path}object.{name}", EntityType.FIELD), each
    for key in _DEFINITIONS:
        for name, each in _members(schema.get(key)):
            yield Entity(f"{path}object.{key}.{name}", EntityType.RECORD), each
    for key, word in _COMBINED.items():
        listed = schema.get(key)
        for index, each in enumerate(listed if isinstance(listed, list) else ()):
            if isinstance(each, dict):
                yield Entity(f"{path}{word}.{index}.object", EntityType.RECORD), each
    for word, key in (("array", "items"), ("not", "not")):
        if isinstance(inner := schema.get(key), dict):
            yield Entity(f"{path}{word}.object", EntityType.RECORD), inner
    for key in ("if", "then", "else"):
        if isinstance(inner := schema.get(key), dict):
            yield Entity(f"{path}{_CONDITIONAL}.{key}.object", EntityType.RECORD), inner


def _members(value: Any) -> Iterator[tuple[str, Schema]]:
    for name, each in value.items() if isinstance(value, dict) else ():
        if isinstance(each, dict):
            yield name, each
