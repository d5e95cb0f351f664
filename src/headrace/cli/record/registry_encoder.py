"""Lines of JSON as keys and values that name a schema of a registry."""

import json
from typing import Final

from headrace.model.error import InvalidArgument
from headrace.schema.protobuf.parsed import ProtobufSchema
from headrace.serde.error import Unencodable
from headrace.serde.registered_schema import RegisteredSchema
from headrace.serde.registry_client import RegistryClient
from headrace.serde.serializer import Serializer
from headrace.serde.subject_name import SubjectNameStrategy

TOPIC: Final = "topic"
"""What stands for the latest schema of the topic's subject, instead of an id."""


class RegistryEncoder:
    """Encodes the keys or the values of a topic with one schema.

    Args:
        schema_id: an id, or `topic` for the latest version of `TOPIC-key` or `TOPIC-value`.
        message: the name of a message in a Protobuf schema; the first one without it.

    Raises:
        InvalidArgument: an id is no number, or a message is not in the schema.
        RegistryError: there is no such schema.
        RegistryUnreachable: no registry answers.
    """

    def __init__(
        self,
        registry: RegistryClient,
        topic: str,
        schema_id: str,
        message: str | None = None,
        *,
        key: bool = False,
    ) -> None:
        self._name = "key" if key else "value"
        self._serializer = Serializer(registry)
        if schema_id == TOPIC:
            subject = SubjectNameStrategy.TOPIC_NAME.subject(topic, key=key)
            self._schema = registry.version(subject)
        elif schema_id.isascii() and schema_id.isdigit() and int(schema_id) < 2**31:
            self._schema = registry.schema(int(schema_id))
        else:
            raise InvalidArgument(
                f"{schema_id[:40]!r} is no schema: write its id, or {TOPIC} for the latest of "
                f"the topic's {self._name}s"
            )
        self._indexes = _indexes(self._schema, message)

    def encode(self, data: bytes | None, line: int | None = None) -> bytes | None:
        """Return what a line says, in bytes that name the schema; a null stays one.

        Raises:
            Unencodable: it is no JSON, or does not fit; the message names the line.
        """
        if data is None:
            return None
        where = f"the {self._name}" if line is None else f"the {self._name} in line {line}"
        try:
            value = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise Unencodable(f"{where} is no JSON: {error}") from error
        try:
            return self._serializer.encode(value, self._schema, self._indexes, from_json=True)
        except Unencodable as error:
            raise Unencodable(f"{where} cannot be written: {error}") from error


def _indexes(schema: RegisteredSchema, message: str | None) -> tuple[int, ...]:
    if message is None:
        return (0,)
    if not isinstance(schema.parsed, ProtobufSchema):
        raise InvalidArgument(
            f"--schema-type {message} names a message, and the schema is {schema.type.value}"
        )
    indexes = schema.parsed.message_indexes(message)
    if indexes is None:
        raise InvalidArgument(
            f"the schema has no message {message}; its first one is {schema.parsed.name}"
        )
    return indexes
