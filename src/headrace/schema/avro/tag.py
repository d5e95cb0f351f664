"""Tags in Avro schemas. A path is a record's full name, or that and the name of a field.

The namespace may be left out; then the outermost record of that name is meant.
"""

from collections import deque
from collections.abc import Iterator
from typing import Any

from headrace.schema import json_text
from headrace.schema.avro.tree import Array, AvroType, Map, Record, Union
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


def find_tags(root: AvroType) -> dict[Entity, tuple[str, ...]]:
    """Return what is tagged in a tree, the types of its references included.

    Raises:
        InvalidSchema: too much of it is.
    """
    return gather(_tagged(root))


def _tagged(root: AvroType) -> Iterator[tuple[Entity, tuple[str, ...]]]:
    for record in _records(root):
        if len(record.name) > MAX_PATH_CHARACTERS:
            continue
        yield Entity(record.name, EntityType.RECORD), tags_of(record.props)
        for each in record.fields:
            yield Entity(f"{record.name}.{each.name}", EntityType.FIELD), tags_of(each.props)


def _records(root: AvroType) -> Iterator[Record]:
    """Yield the records of a tree, each once, the outer ones first."""
    waiting = deque([root])
    seen: set[int] = set()
    while waiting:
        kind = waiting.popleft()
        if id(kind) in seen:
            continue
        seen.add(id(kind))
        match kind:
            case Union():
                waiting += kind.branches
            case Array():
                waiting.append(kind.items)
            case Map():
                waiting.append(kind.values)
            case Record():
                yield kind
                waiting += [each.type for each in kind.fields]


def change_tags(canonical: str, change: TagChange) -> str:
    """Return a schema's text with tags added and removed.

    Raises:
        InvalidSchema: it does not define such a record or field.
    """
    document = json_text.load(canonical)
    for entity, node in pick(_entities(document), change).items():
        change_attribute(node, entity, change)
    return json_text.dump(document)


def _entities(document: Any) -> Iterator[tuple[Entity, dict[str, Any]]]:
    for full_name, node in _definitions(document):
        if len(full_name) > MAX_PATH_CHARACTERS:
            continue
        for name in dict.fromkeys((full_name, node["name"])):
            yield Entity(name, EntityType.RECORD), node
            for field in node["fields"]:
                yield Entity(f"{name}.{field['name']}", EntityType.FIELD), field


def _definitions(document: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the full names and objects of the records of a canonical text, outer ones first."""
    waiting: deque[tuple[Any, str]] = deque([(document, "")])
    while waiting:
        node, namespace = waiting.popleft()
        if isinstance(node, list):
            waiting += [(each, namespace) for each in node]
        elif isinstance(node, dict):
            match node["type"]:
                case "record" | "error":
                    namespace = node.get("namespace", namespace)
                    yield f"{namespace}.{node['name']}" if namespace else node["name"], node
                    waiting += [(each["type"], namespace) for each in node["fields"]]
                case "array":
                    waiting.append((node["items"], namespace))
                case "map":
                    waiting.append((node["values"], namespace))
