"""Connect's schemas as JSON Schema, with the attributes of Confluent's JsonSchemaConverter.

Values stay as they are in Connect's JSON: bytes are Base64, infinities and NaN are texts. Structs
allow no more properties than they name: so a new column makes a schema that is compatible with the
one before it, by the registry's rules.
"""

import json
from typing import Any, Final

from headrace.ingest.format.connect_schema import ConnectSchema, NotConnect

_TYPES: Final = {
    "int8": "integer",
    "int16": "integer",
    "int32": "integer",
    "int64": "integer",
    "float": "number",
    "double": "number",
    "boolean": "boolean",
    "string": "string",
    "bytes": "string",
}
_NAMES: Final = {"float": "float32", "double": "float64"}
_PLAIN: Final = ("boolean", "string")


def json_schema(schema: ConnectSchema) -> str:
    """Return the JSON Schema of a key or value.

    >>> json_schema({"type": "int32", "optional": False})
    '{"type":"integer","connect.type":"int32"}'

    Raises:
        NotConnect: it has a type that Connect does not have.
    """
    try:
        return json.dumps(_schema(schema), separators=(",", ":"), ensure_ascii=False)
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise NotConnect(f"an event's schema is none of Connect: {error!r}") from error


def _schema(schema: ConnectSchema) -> dict[str, Any]:
    made = _base(schema)
    return {"oneOf": [{"type": "null"}, made]} if schema.get("optional") else made


def _base(schema: ConnectSchema) -> dict[str, Any]:
    kind = schema["type"]
    made: dict[str, Any]
    match kind:
        case "struct":
            fields = schema["fields"]
            made = {
                "type": "object",
                "properties": {
                    each["field"]: {**_schema(each), "connect.index": at}
                    for at, each in enumerate(fields)
                },
                "additionalProperties": False,
            }
            required = [
                each["field"]
                for each in fields
                if not each.get("optional") and each.get("default") is None
            ]
            if required:
                made["required"] = required
        case "array":
            made = {"type": "array", "items": _schema(schema["items"])}
        case "map":
            made = {"type": "object", "connect.type": "map"}
            made["additionalProperties"] = _schema(schema["values"])
        case _:
            made = {"type": _TYPES[kind]}
            if kind not in _PLAIN:
                made["connect.type"] = _NAMES.get(kind, kind)
    if schema.get("name") is not None:
        made["title"] = schema["name"]
    if schema.get("version") is not None:
        made["connect.version"] = schema["version"]
    if schema.get("parameters"):
        made["connect.parameters"] = schema["parameters"]
    if schema.get("default") is not None:
        made["default"] = schema["default"]
    return made
