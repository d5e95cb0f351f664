"""JSON Schemas and Spark's types.

Objects with properties are structs, other objects maps; what may be of several types, or refers to
itself, is a string that holds JSON. Dates and times stay strings, as JSON has them.
"""

import json
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DoubleType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from headrace.schema.parsed import ParsedSchema

_SCALARS: Final[dict[str, DataType]] = {
    "string": StringType(),
    "integer": LongType(),
    "number": DoubleType(),
    "boolean": BooleanType(),
}
_DEEPEST: Final = 64


@dataclass(frozen=True, slots=True)
class JsonShape:
    """The type of a part of a value, and what is inside.

    Attributes:
        name: struct, map, array, json for any JSON in a string, or a scalar's type.
        inside: by property; of an array or map under "".
        required: properties that must be there, also as null.
    """

    name: str
    inside: dict[str, "JsonShape"]
    required: frozenset[str] = frozenset()

    @property
    def type(self) -> DataType:
        match self.name:
            case "struct":
                return StructType(
                    [StructField(name, each.type) for name, each in self.inside.items()]
                )
            case "map":
                return MapType(StringType(), self.inside[""].type)
            case "array":
                return ArrayType(self.inside[""].type)
            case "json":
                return StringType()
            case _:
                return _SCALARS[self.name]

    @property
    def for_arrow(self) -> bool:
        """Whether Arrow's reader makes columns of it: without maps and any JSON."""
        if self.name in ("map", "json"):
            return False
        return all(each.for_arrow for each in self.inside.values())


def json_shape(schema: ParsedSchema) -> JsonShape:
    """Return the shape of the values of a JSON Schema."""
    root = json.loads(schema.text.text)
    documents = {name: json.loads(text) for name, text in schema.resolved.items()}
    return _shape(root, _References(root, documents), ())


_ANY: Final = JsonShape("json", {})


class _References:
    """Finds what `$ref` names: in its own document, or among the schema's references."""

    def __init__(self, root: Any, documents: dict[str, Any]) -> None:
        self.root = root
        self.documents = documents

    def find(self, reference: str) -> "tuple[Any, _References] | None":
        document, _, pointer = reference.partition("#")
        root = self.documents.get(document) if document else self.root
        found = root
        for part in pointer.strip("/").split("/") if pointer.strip("/") else ():
            part = part.replace("~1", "/").replace("~0", "~")
            if not isinstance(found, dict) or part not in found:
                return None
            found = found[part]
        return None if found is None else (found, _References(root, self.documents))


def _shape(schema: Any, references: _References, above: tuple[str, ...]) -> JsonShape:
    if not isinstance(schema, dict) or len(above) > _DEEPEST:
        return _ANY
    reference = schema.get("$ref")
    if isinstance(reference, str):
        found = None if reference in above else references.find(reference)
        return _ANY if found is None else _shape(*found, (*above, reference))
    for key in ("oneOf", "anyOf"):
        if isinstance(schema.get(key), list):
            others = [each for each in schema[key] if each != {"type": "null"}]
            return _shape(others[0], references, (*above, "")) if len(others) == 1 else _ANY
    kind = _kind(schema)
    above = (*above, "")
    if kind == "object":
        properties = schema.get("properties")
        if isinstance(properties, dict) and properties:
            inside = {name: _shape(each, references, above) for name, each in properties.items()}
            return JsonShape("struct", inside, frozenset(schema.get("required") or ()))
        return JsonShape("map", {"": _shape(schema.get("additionalProperties"), references, above)})
    if kind == "array":
        return JsonShape("array", {"": _shape(schema.get("items"), references, above)})
    return JsonShape(kind, {}) if kind in _SCALARS else _ANY


def _kind(schema: dict[str, Any]) -> str | None:
    kind = schema.get("type")
    if isinstance(kind, list):
        others = [each for each in kind if each != "null"]
        kind = others[0] if len(others) == 1 else None
    if kind is None and "type" not in schema:
        if isinstance(schema.get("properties"), dict):
            return "object"
        values = schema.get("enum")
        if isinstance(values, list) and all(isinstance(each, str) for each in values):
            return "string"
    return kind if isinstance(kind, str) else None
