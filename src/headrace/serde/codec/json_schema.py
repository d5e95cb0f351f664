"""JSON values, validated by a JSON Schema."""

import json
from typing import Any

from headrace.model.error import ConfigError
from headrace.schema.parsed import ParsedSchema
from headrace.serde.codec.codec import Codec
from headrace.serde.error import Undecodable, Unencodable


class JsonSchemaCodec(Codec):
    """Reads any JSON; writes only what the schema allows, as Confluent's serializers do."""

    def __init__(self, schema: ParsedSchema) -> None:
        self._validator = _validator(schema)

    def decode(self, data: bytes, indexes: tuple[int, ...] = (0,)) -> Any:
        try:
            return json.loads(data)
        except (ValueError, RecursionError) as error:
            raise Undecodable(f"the value is no JSON: {error}") from error

    def encode(self, value: Any, indexes: tuple[int, ...] = (0,)) -> bytes:
        try:
            problem = next(self._validator.iter_errors(value), None)
        except Exception as error:  # a schema's patterns and references raise when they are used
            raise Unencodable(f"the schema cannot be applied: {error}") from error
        if problem is not None:
            where = problem.json_path
            raise Unencodable(
                f"the value does not fit its JSON Schema at {where}: {problem.message}"
            )
        try:
            return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
        except (TypeError, ValueError, UnicodeEncodeError) as error:
            raise Unencodable(f"the value cannot be written as JSON: {error}") from error


def _validator(schema: ParsedSchema) -> Any:
    try:
        from jsonschema import Draft7Validator
        from jsonschema.validators import validator_for
        from referencing import Registry, Resource
        from referencing.jsonschema import DRAFT7
    except ImportError:
        raise ConfigError(
            "values with a JSON Schema need jsonschema: pip install 'headrace[schemas]'"
        ) from None
    root = json.loads(schema.text.text)
    resources = [
        (name, Resource.from_contents(json.loads(text), default_specification=DRAFT7))
        for name, text in schema.resolved.items()
    ]
    # Nothing is fetched: what is not among the references cannot be resolved.
    registry: Any = Registry().with_resources(resources)
    return validator_for(root, default=Draft7Validator)(root, registry=registry)
