"""Protobuf values: messages of a file that is only known at run time."""

import base64
from typing import Any

from headrace.model.error import ConfigError
from headrace.schema.parse import parse
from headrace.schema.parsed import ParsedSchema
from headrace.schema.protobuf.parsed import ProtobufSchema
from headrace.schema.protobuf.well_known import WELL_KNOWN
from headrace.schema.schema import SchemaText, SchemaType
from headrace.serde.codec.codec import Codec
from headrace.serde.error import Undecodable, Unencodable, brief


class ProtobufCodec(Codec):
    """Reads and writes with google.protobuf. JSON is Protobuf's own, with the names of the file."""

    def __init__(self, schema: ParsedSchema) -> None:
        assert isinstance(schema, ProtobufSchema)
        try:
            from google.protobuf import descriptor_pool, message_factory
        except ImportError:
            raise ConfigError(
                "Protobuf values need protobuf: pip install 'headrace[schemas]'"
            ) from None
        self._schema = schema
        pool = descriptor_pool.DescriptorPool()
        name = "headrace/schema.proto"
        try:
            for file in _in_order(schema, name):
                pool.Add(file)
            pool.FindFileByName(name)
        except (TypeError, KeyError) as error:
            raise Undecodable(f"the Protobuf schema cannot be used: {error}") from error
        self._pool = pool
        self._factory = message_factory
        self._classes: dict[tuple[int, ...], Any] = {}

    def decode(self, data: bytes, indexes: tuple[int, ...] = (0,)) -> Any:
        from google.protobuf.json_format import MessageToDict

        message = self._class(indexes)()
        try:
            message.ParseFromString(data)
            return MessageToDict(message, preserving_proto_field_name=True)
        except Exception as error:  # its C code raises several
            raise Undecodable(f"no message of its Protobuf schema: {brief(error)}") from error

    def encode(self, value: Any, indexes: tuple[int, ...] = (0,)) -> bytes:
        from google.protobuf.json_format import ParseDict

        message = self._class(indexes)()
        try:
            ParseDict(value, message)
            data: bytes = message.SerializeToString(deterministic=True)
        except Exception as error:
            raise Unencodable(
                f"the value does not fit its Protobuf schema: {brief(error)}"
            ) from error
        return data

    def message_class(self, name: str) -> Any:
        """Return the class of a message by its full name; None if the schema has none."""
        try:
            return self._factory.GetMessageClass(self._pool.FindMessageTypeByName(name))
        except KeyError:
            return None

    def _class(self, indexes: tuple[int, ...]) -> Any:
        found = self._classes.get(indexes)
        if found is None:
            name = self._schema.message_name(indexes)
            if name is None:
                raise Undecodable(f"the Protobuf schema has no message {list(indexes)}")
            found = self._factory.GetMessageClass(self._pool.FindMessageTypeByName(name))
            self._classes[indexes] = found
        return found


def _in_order(schema: ProtobufSchema, name: str) -> list[Any]:
    """Return the descriptors of a file and of all it imports, imports first."""
    from google.protobuf import descriptor_pb2

    from headrace.schema.protobuf.descriptor_writer import serialized

    files = {name: schema}
    waiting = [name]
    while waiting:
        for path in _imports(files[waiting.pop()]):
            if path not in files:
                source = schema.resolved.get(path) or WELL_KNOWN[path]
                found = parse(SchemaText(SchemaType.PROTOBUF, source), schema.resolved)
                assert isinstance(found, ProtobufSchema)
                files[path] = found
                waiting.append(path)
    # A file follows when all that it imports have been written.
    ordered: dict[str, Any] = {}
    waiting = [name]
    while waiting:
        path = waiting[-1]
        missing = [each for each in _imports(files[path]) if each not in ordered]
        if path in ordered or not missing:
            waiting.pop()
            text = serialized(files[path].file, files[path].scope, path)
            ordered.setdefault(
                path, descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(text))
            )
        elif set(missing) & set(waiting):
            raise Undecodable(f"the Protobuf schema imports {missing[0]} in a circle")
        else:
            waiting += missing
    return list(ordered.values())


def _imports(schema: ProtobufSchema) -> tuple[str, ...]:
    return (*schema.file.imports, *schema.file.public_imports)
