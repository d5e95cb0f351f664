"""From a tree to a FileDescriptorProto in base64, which clients ask for with `format=serialized`.

Options of Protobuf itself are written. Extensions of options are left out: their bytes would need
the files that define them, and no client decodes records by them.
"""

import base64
from typing import Any

from google.protobuf import descriptor_pb2

from headrace.schema.protobuf.descriptor_reader import json_name
from headrace.schema.protobuf.scope import Scope
from headrace.schema.protobuf.tree import (
    SCALAR_GROUPS,
    Enum,
    Field,
    Message,
    Options,
    ProtoFile,
    Reserved,
    Service,
    Text,
    Word,
)

_FIELD = descriptor_pb2.FieldDescriptorProto
_EDITION_BASE = 1023


def serialized(file: ProtoFile, scope: Scope, name: str = "default") -> str:
    """Return the file as a descriptor in base64."""
    data: bytes = _FileWriter(file, scope).descriptor(name).SerializeToString(deterministic=True)
    return base64.b64encode(data).decode("ascii")


class _FileWriter:
    def __init__(self, file: ProtoFile, scope: Scope) -> None:
        self._file = file
        self._scope = scope

    def descriptor(self, name: str) -> Any:
        file = self._file
        result = descriptor_pb2.FileDescriptorProto(name=name)
        if file.package:
            result.package = file.package
        if file.is_edition:
            result.syntax = "editions"
            result.edition = int(file.syntax or 0) - _EDITION_BASE
        elif file.syntax == "proto3":
            result.syntax = "proto3"
        result.dependency.extend([*file.imports, *file.public_imports])
        first = len(file.imports)
        result.public_dependency.extend(range(first, first + len(file.public_imports)))
        for kind in file.types:
            if isinstance(kind, Message):
                self._message(kind, file.package, result.message_type.add())
            else:
                _enum(kind, result.enum_type.add())
        for extend in file.extends:
            for field in extend.fields:
                added = result.extension.add()
                self._field(field, file.package, added)
                added.extendee = self._scope.full_name(extend.name, file.package)
        for service in file.services:
            self._service(service, result.service.add())
        _set_options(file.options, result)
        return result

    def _message(self, message: Message, outer: str, result: Any) -> None:
        scope = f"{outer}.{message.name}" if outer else message.name
        result.name = message.name
        for kind in message.types:
            if isinstance(kind, Message):
                self._message(kind, scope, result.nested_type.add())
            else:
                _enum(kind, result.enum_type.add())
        for field in message.fields:
            self._field(field, scope, result.field.add())
            if field.is_map:
                self._map_entry(field, scope, result)
        for index, oneof in enumerate(message.oneofs):
            result.oneof_decl.add(name=oneof.name)
            for field in oneof.fields:
                added = result.field.add()
                self._field(field, scope, added)
                added.oneof_index = index
        self._optionals(result)
        for extend in message.extends:
            for field in extend.fields:
                added = result.extension.add()
                self._field(field, scope, added)
                added.extendee = self._scope.full_name(extend.name, scope)
        for ranges in message.extensions:
            for first, last in ranges:
                result.extension_range.add(start=first, end=last + 1)
        _reserve(message.reserved, result, 1)
        _set_options(message.options, result)

    def _optionals(self, result: Any) -> None:
        """Give proto3's optional fields their oneofs, which come after all others."""
        for field in result.field:
            if field.proto3_optional:
                field.oneof_index = len(result.oneof_decl)
                result.oneof_decl.add(name=f"_{field.name}")

    def _field(self, field: Field, scope: str, result: Any) -> None:
        result.name = field.name
        result.number = field.number
        result.label = _FIELD.LABEL_OPTIONAL
        if field.label == "repeated" or field.is_map:
            result.label = _FIELD.LABEL_REPEATED
        elif field.label == "required":
            result.label = _FIELD.LABEL_REQUIRED
        elif field.label == "optional" and self._file.syntax == "proto3":
            result.proto3_optional = True
        if field.is_map:
            result.type = _FIELD.TYPE_MESSAGE
            result.type_name = f".{scope}.{_entry_name(field)}"
        else:
            self._type(field.type, scope, result)
            if field.is_group:
                result.type = _FIELD.TYPE_GROUP
        result.json_name = json_name(field.name)
        for option in field.options:
            if option.name in ("default", "json_name") and isinstance(option.value, Text | Word):
                key = "default_value" if option.name == "default" else option.name
                setattr(result, key, option.value.value)
        _set_options(field.options, result)

    def _type(self, name: str, scope: str, result: Any) -> None:
        if name in SCALAR_GROUPS:
            result.type = _FIELD.Type.Value(f"TYPE_{name.upper()}")
            return
        found = self._scope.find(name, scope)
        is_enum = found is not None and isinstance(found.type, Enum)
        result.type = _FIELD.TYPE_ENUM if is_enum else _FIELD.TYPE_MESSAGE
        result.type_name = self._scope.full_name(name, scope)

    def _map_entry(self, field: Field, scope: str, result: Any) -> None:
        entry = result.nested_type.add(name=_entry_name(field))
        entry.options.map_entry = True
        for number, (name, kind) in enumerate([("key", field.key), ("value", field.value)], 1):
            inner = entry.field.add(name=name, number=number, label=_FIELD.LABEL_OPTIONAL)
            inner.json_name = name
            self._type(kind, scope, inner)

    def _service(self, service: Service, result: Any) -> None:
        result.name = service.name
        for rpc in service.rpcs:
            method = result.method.add(
                name=rpc.name,
                input_type=self._scope.full_name(rpc.request, self._file.package),
                output_type=self._scope.full_name(rpc.response, self._file.package),
                client_streaming=rpc.streams_request,
                server_streaming=rpc.streams_response,
            )
            _set_options(rpc.options, method)
        _set_options(service.options, result)


def _entry_name(field: Field) -> str:
    return "".join(each[:1].upper() + each[1:] for each in field.name.split("_")) + "Entry"


def _enum(enum: Enum, result: Any) -> None:
    result.name = enum.name
    for constant in enum.constants:
        added = result.value.add(name=constant.name, number=constant.number)
        _set_options(constant.options, added)
    _reserve(enum.reserved, result, 0)
    _set_options(enum.options, result)


def _reserve(reserved: list[list[Reserved]], result: Any, beyond: int) -> None:
    for value in (value for values in reserved for value in values):
        if isinstance(value, str):
            result.reserved_name.append(value)
        else:
            result.reserved_range.add(start=value[0], end=value[1] + beyond)


def _set_options(options: Options, result: Any) -> None:
    """Set those options that are Protobuf's own and simple."""
    fields = result.options.DESCRIPTOR.fields_by_name
    for option in options:
        field = fields.get(option.name)
        if field is None or field.is_repeated or field.message_type is not None:
            continue
        value = option.value
        if isinstance(value, Text) and field.type == field.TYPE_STRING:
            setattr(result.options, option.name, value.value)
        elif isinstance(value, Word) and field.type == field.TYPE_BOOL:
            setattr(result.options, option.name, value.value == "true")
        elif isinstance(value, Word) and field.enum_type is not None:
            named = field.enum_type.values_by_name.get(value.value)
            if named is not None:
                setattr(result.options, option.name, named.number)
