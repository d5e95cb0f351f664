"""From a FileDescriptorProto, as clients hand in their compiled schemas, to a tree."""

from typing import Any, Final

from google.protobuf import descriptor_pb2
from google.protobuf.message import DecodeError

from headrace.schema.error import InvalidSchema
from headrace.schema.protobuf.tree import (
    Block,
    Constant,
    Enum,
    Extend,
    Field,
    Message,
    OneOf,
    Option,
    Options,
    ProtoFile,
    Reserved,
    Rpc,
    Service,
    Text,
    Value,
    Word,
)

_KIND: Final = descriptor_pb2.FieldDescriptorProto.Type
_LABEL: Final = {1: "optional", 2: "required", 3: "repeated"}
_MAX_NESTING: Final = 32
_EDITION_DIGITS: Final = 4


def read_descriptor(data: bytes) -> ProtoFile:
    """Return the tree of a serialized FileDescriptorProto.

    Raises:
        InvalidSchema: the bytes are none.
    """
    descriptor = descriptor_pb2.FileDescriptorProto()
    try:
        descriptor.ParseFromString(data)
    except DecodeError:
        raise InvalidSchema("the schema is neither a .proto file nor a descriptor") from None
    if not descriptor.message_type and not descriptor.enum_type and not descriptor.name:
        raise InvalidSchema("the schema is neither a .proto file nor a descriptor")
    return _file(descriptor)


def _file(descriptor: Any) -> ProtoFile:
    syntax = descriptor.syntax or None
    if syntax == "editions":
        # EDITION_2023 is called 1000, 2024 is 1001.
        syntax = str(descriptor.edition + 1023)[-_EDITION_DIGITS:]
    public = set(descriptor.public_dependency)
    proto3 = syntax == "proto3"
    return ProtoFile(
        syntax=syntax,
        package=descriptor.package,
        imports=[each for i, each in enumerate(descriptor.dependency) if i not in public],
        public_imports=[each for i, each in enumerate(descriptor.dependency) if i in public],
        options=_options(descriptor.options),
        types=[_message(each, proto3, 1) for each in descriptor.message_type]
        + [_enum(each) for each in descriptor.enum_type],
        extends=_extends(descriptor.extension, proto3),
        services=[_service(each) for each in descriptor.service],
    )


def _message(descriptor: Any, proto3: bool, depth: int) -> Message:
    if depth > _MAX_NESTING:
        raise InvalidSchema(f"messages are nested more than {_MAX_NESTING} deep")
    entries = {f".{each.name}": each for each in descriptor.nested_type if each.options.map_entry}
    oneofs = [OneOf(each.name, options=_options(each.options)) for each in descriptor.oneof_decl]
    message = Message(descriptor.name, options=_options(descriptor.options))
    for each in descriptor.field:
        field = _map_field(each, entries) or _field(each, proto3)
        if each.HasField("oneof_index") and not each.proto3_optional:
            if each.oneof_index >= len(oneofs):
                raise InvalidSchema(f"the descriptor names no oneof {each.oneof_index}")
            field.label = None
            oneofs[each.oneof_index].fields.append(field)
        else:
            message.fields.append(field)
    # proto3's optional fields are in oneofs of their own, which no text shows.
    message.oneofs = [each for each in oneofs if each.fields]
    message.types = [
        _message(each, proto3, depth + 1)
        for each in descriptor.nested_type
        if not each.options.map_entry
    ]
    message.types += [_enum(each) for each in descriptor.enum_type]
    message.reserved = _reserved(descriptor, 1)
    message.extensions = [[(each.start, each.end - 1)] for each in descriptor.extension_range]
    message.extends = _extends(descriptor.extension, proto3)
    groups = {each.type for each in message.all_fields() if each.is_group}
    for kind in message.types:
        if isinstance(kind, Message):
            kind.is_group = kind.name in groups
    return message


def _map_field(descriptor: Any, entries: dict[str, Any]) -> Field | None:
    entry = next(
        (each for name, each in entries.items() if descriptor.type_name.endswith(name)), None
    )
    if entry is None or descriptor.label != descriptor.LABEL_REPEATED or len(entry.field) < 2:
        return None
    key, value = entry.field[0], entry.field[1]
    options = _field_options(descriptor)
    return Field(
        descriptor.name,
        descriptor.number,
        key=_type(key),
        value=_type(value),
        options=options,
    )


def _field(descriptor: Any, proto3: bool) -> Field:
    label: str | None = _LABEL.get(descriptor.label)
    if proto3 and label == "optional" and not descriptor.proto3_optional:
        label = None
    is_group = descriptor.type == descriptor.TYPE_GROUP
    kind = _type(descriptor)
    if is_group:
        kind = kind.rpartition(".")[2]
    options = _field_options(descriptor)
    return Field(
        descriptor.name, descriptor.number, kind, label, options=options, is_group=is_group
    )


def _type(descriptor: Any) -> str:
    if descriptor.type_name:
        return str(descriptor.type_name)
    try:
        name: str = _KIND.Name(descriptor.type)
        return name.removeprefix("TYPE_").lower()
    except ValueError:
        raise InvalidSchema(f"the field {descriptor.name!r} has no type that is known") from None


def _field_options(descriptor: Any) -> Options:
    options = _options(descriptor.options)
    if descriptor.HasField("default_value"):
        is_text = descriptor.type in (descriptor.TYPE_STRING, descriptor.TYPE_BYTES)
        text = descriptor.default_value
        options.append(Option("default", Text(text) if is_text else Word(text)))
    if descriptor.HasField("json_name") and descriptor.json_name != json_name(descriptor.name):
        options.append(Option("json_name", Text(descriptor.json_name)))
    return options


def json_name(name: str) -> str:
    """Return the name that a field has in JSON unless it says otherwise."""
    first, *rest = name.split("_")
    return first + "".join(each[:1].upper() + each[1:] for each in rest)


def _enum(descriptor: Any) -> Enum:
    constants = [
        Constant(each.name, each.number, _options(each.options)) for each in descriptor.value
    ]
    return Enum(descriptor.name, constants, _options(descriptor.options), _reserved(descriptor, 0))


def _reserved(descriptor: Any, beyond: int) -> list[list[Reserved]]:
    """Read reserved ranges; a message's end one number beyond, an enum's do not."""
    found: list[list[Reserved]] = [
        [(each.start, each.end - beyond)] for each in descriptor.reserved_range
    ]
    return found + [[each] for each in descriptor.reserved_name]


def _extends(descriptors: Any, proto3: bool) -> list[Extend]:
    found: dict[str, Extend] = {}
    for each in descriptors:
        extend = found.setdefault(each.extendee, Extend(each.extendee))
        extend.fields.append(_field(each, proto3))
    return list(found.values())


def _service(descriptor: Any) -> Service:
    rpcs = [
        Rpc(
            each.name,
            each.input_type,
            each.output_type,
            each.client_streaming,
            each.server_streaming,
            _options(each.options),
        )
        for each in descriptor.method
    ]
    return Service(descriptor.name, rpcs, _options(descriptor.options))


def _options(options: Any) -> Options:
    """Read Protobuf's own options; extensions are bytes without their files and are left out."""
    found: Options = []
    for field, value in options.ListFields():
        if field.name == "map_entry":
            continue
        for each in value if field.is_repeated else [value]:
            found.append(Option(field.name, _value(field, each)))
    return found


def _value(field: Any, value: Any) -> Value:
    if field.enum_type is not None:
        named = field.enum_type.values_by_number.get(value)
        return Word(named.name if named is not None else str(value))
    if field.message_type is not None:
        inner = [(each.name, _value(each, part)) for each, part in value.ListFields()]
        return Block(tuple(inner))
    if isinstance(value, bool):
        return Word(str(value).lower())
    if isinstance(value, str):
        return Text(value)
    return Word(str(value)) if not isinstance(value, bytes) else Text(value.decode("latin-1"))
