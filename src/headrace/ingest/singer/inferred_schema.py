"""The schema of a stream as its records show it."""

import json
from collections.abc import Sequence
from typing import Any

_MOST_PROPERTIES = 1000


class InferredSchema:
    """A JSON Schema that only grows: each property has the types that were seen, and null.

    >>> schema = InferredSchema(["id"])
    >>> schema.add({"id": 1, "name": None})
    >>> json.loads(schema.text)["schema"]["properties"]
    {'id': {'type': ['null', 'integer']}, 'name': {'type': ['null', 'string']}}
    """

    def __init__(self, keys: Sequence[str]) -> None:
        self._keys = list(keys)
        self._types: dict[str, set[str]] = {}
        self._text: str | None = None

    def add(self, record: dict[str, Any]) -> None:
        """Take the types of a record's fields."""
        for name, value in record.items():
            types = self._types.get(name)
            if types is None:
                if len(self._types) >= _MOST_PROPERTIES:
                    continue  # the target judges what no schema describes
                types = self._types[name] = set()
                self._text = None
            kind = _type(value)
            if kind is not None and kind not in types:
                types.add(kind)
                self._text = None

    @property
    def text(self) -> str:
        """The SCHEMA message without type and stream, as JSON."""
        if self._text is None:
            properties = {
                name: {"type": ["null", *(sorted(types) or ["string"])]}
                for name, types in self._types.items()
            }
            schema = {"type": "object", "properties": properties}
            self._text = json.dumps({"schema": schema, "key_properties": self._keys})
        return self._text


def _type(value: Any) -> str | None:
    match value:
        case None:
            return None
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
    return "object"
