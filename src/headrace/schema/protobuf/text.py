"""A .proto file written in one form: that in which Confluent's registry stores it.

Comments go, sections come in a fixed order: reserved, options, fields, oneofs, groups, extensions,
messages, enums. Messages keep their order, since records name them by their place. The normalised
form also sorts fields by number and options by name, and writes every type by its full name.
"""

from collections.abc import Callable, Iterable
from typing import Final

from headrace.schema.protobuf.tree import (
    MAX_NUMBER,
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
    Values,
)

# Options that are written after all others.
_LAST: Final = ("default", "json_name")
_ESCAPES: Final = str.maketrans(
    {
        "\a": "\\a",
        "\b": "\\b",
        "\f": "\\f",
        "\n": "\\n",
        "\r": "\\r",
        "\t": "\\t",
        "\v": "\\v",
        "\\": "\\\\",
        "'": "\\'",
        '"': '\\"',
    }
)

# Returns the full name, with a dot before it, of a type named inside a scope.
Resolve = Callable[[str, str], str]


class ProtoWriter:
    """Writes one file; with `resolve` in the normalised form."""

    def __init__(self, resolve: Resolve | None = None) -> None:
        self._resolve = resolve

    def text(self, file: ProtoFile) -> str:
        parts: list[str] = []
        if file.syntax is not None:
            word = "edition" if file.is_edition else "syntax"
            parts.append(f'{word} = "{file.syntax}";\n')
        if file.package:
            parts.append(f"package {file.package};\n")
        imports = [f'import "{each}";\n' for each in self._imports(file.imports)]
        imports += [f'import public "{each}";\n' for each in self._imports(file.public_imports)]
        types = self._types(file.types, file.package)
        sections = [
            imports,
            self._statements(file.options),
            types,
            [self._extend(each, file.package) for each in file.extends],
            [self._service(each, file.package) for each in file.services],
        ]
        for section in sections:
            if section:
                parts += ["\n", *section]
        return "".join(parts)

    @property
    def _normal(self) -> bool:
        return self._resolve is not None

    def _imports(self, imports: list[str]) -> list[str]:
        return sorted(set(imports)) if self._normal else imports

    def _type(self, name: str, scope: str) -> str:
        return name if self._resolve is None else self._resolve(name, scope)

    def _types(self, types: Iterable[Message | Enum], scope: str) -> list[str]:
        messages = [
            self._message(each, scope)
            for each in types
            if isinstance(each, Message) and not each.is_group and not each.is_map_entry
        ]
        return messages + [self._enum(each) for each in types if isinstance(each, Enum)]

    def _message(self, message: Message, outer: str) -> str:
        return f"message {message.name} {self._body(message, outer)}"

    def _body(self, message: Message, outer: str) -> str:
        scope = f"{outer}.{message.name}" if outer else message.name
        groups = {each.name: each for each in message.types if isinstance(each, Message)}
        fields = [each for each in message.fields if not each.is_group]
        oneofs = [each for each in message.oneofs if each.fields or not self._normal]
        if self._normal:
            fields.sort(key=lambda each: each.number)
            oneofs.sort(key=lambda each: min(field.number for field in each.fields))
        return _block(
            self._reserved(message.reserved),
            self._statements(message.options),
            [self._field(each, scope) for each in fields],
            [self._oneof(each, scope, groups) for each in oneofs],
            [self._group(each, scope, groups) for each in message.fields if each.is_group],
            [_extensions(each) for each in message.extensions],
            [self._extend(each, scope) for each in message.extends],
            self._types(message.types, scope),
        )

    def _group(self, field: Field, scope: str, groups: dict[str, Message]) -> str:
        label = f"{field.label} " if field.label else ""
        body = self._body(groups[field.type], scope)
        return f"{label}group {field.type} = {field.number}{self._brackets(field.options)} {body}"

    def _oneof(self, oneof: OneOf, scope: str, groups: dict[str, Message]) -> str:
        fields = [each for each in oneof.fields if not each.is_group]
        if self._normal:
            fields.sort(key=lambda each: each.number)
        body = _block(
            self._statements(oneof.options),
            [self._field(each, scope) for each in fields],
            [self._group(each, scope, groups) for each in oneof.fields if each.is_group],
        )
        return f"oneof {oneof.name} {body}"

    def _field(self, field: Field, scope: str) -> str:
        if field.is_map:
            kind = f"map<{field.key}, {self._type(field.value, scope)}>"
        else:
            kind = self._type(field.type, scope)
        label = f"{field.label} " if field.label else ""
        options = self._brackets(field.options)
        return f"{label}{kind} {field.name} = {field.number}{options};\n"

    def _enum(self, enum: Enum) -> str:
        constants = enum.constants
        if self._normal:
            constants = sorted(constants, key=lambda each: (each.number, each.name))
        lines = self._reserved(enum.reserved) + self._statements(enum.options)
        return f"enum {enum.name} {_block(lines + [self._constant(each) for each in constants])}"

    def _constant(self, constant: Constant) -> str:
        return f"{constant.name} = {constant.number}{self._brackets(constant.options)};\n"

    def _reserved(self, reserved: list[list[Reserved]]) -> list[str]:
        if self._normal:
            single = [value for values in reserved for value in values]
            single.sort(key=_reserved_order)
            reserved = [[value] for value in single]
        return [f"reserved {', '.join(map(_reserved_text, values))};\n" for values in reserved]

    def _extend(self, extend: Extend, scope: str) -> str:
        fields = [self._field(each, scope) for each in extend.fields]
        return f"extend {self._type(extend.name, scope)} {_block(fields)}"

    def _service(self, service: Service, scope: str) -> str:
        rpcs = [self._rpc(each, scope) for each in service.rpcs]
        return f"service {service.name} {_block(self._statements(service.options), rpcs)}"

    def _rpc(self, rpc: Rpc, scope: str) -> str:
        request = ("stream " if rpc.streams_request else "") + self._type(rpc.request, scope)
        response = ("stream " if rpc.streams_response else "") + self._type(rpc.response, scope)
        options = self._statements(rpc.options)
        body = f" {_block(options)[:-1]}" if options else ""
        return f"rpc {rpc.name} ({request}) returns ({response}){body};\n"

    def _sorted(self, options: Options) -> Options:
        if self._normal:
            return sorted(options, key=lambda each: each.name)
        return sorted(options, key=lambda each: each.name in _LAST and _LAST.index(each.name) + 1)

    def _statements(self, options: Options) -> list[str]:
        return [f"option {self._option(each)};\n" for each in self._sorted(options)]

    def _brackets(self, options: Options) -> str:
        texts = [self._option(each) for each in self._sorted(options)]
        if not texts:
            return ""
        if len(texts) == 1:
            return f" [{texts[0]}]"
        return " [\n" + "".join(map(_indented, _with_commas(texts))) + "]"

    def _option(self, option: Option) -> str:
        return f"{option.name} = {self._value(option.value)}"

    def _value(self, value: Value) -> str:
        match value:
            case Text():
                return f'"{value.value.translate(_ESCAPES)}"'
            case Block():
                entries = sorted(value.entries, key=_key) if self._normal else value.entries
                lines = [f"{key}: {self._value(each)}" for key, each in entries]
                return "{\n" + "".join(map(_indented, _with_commas(lines))) + "}"
            case Values():
                lines = [self._value(each) for each in value.items]
                return "[\n" + "".join(map(_indented, _with_commas(lines))) + "]"
        return value.value


def _block(*sections: list[str]) -> str:
    parts = ["{"]
    for section in sections:
        if section:
            parts += ["\n", *map(_indented, section)]
    return "".join([*parts, "}\n"])


def _indented(text: str) -> str:
    return "".join(f"  {line}\n" for line in text.rstrip("\n").split("\n"))


def _with_commas(lines: list[str]) -> list[str]:
    return [f"{each}," for each in lines[:-1]] + lines[-1:]


def _extensions(ranges: list[tuple[int, int]]) -> str:
    return f"extensions {', '.join(map(_extension_range, ranges))};\n"


def _extension_range(numbers: tuple[int, int]) -> str:
    first, last = numbers
    if first == last:
        return str(first)
    return f"{first} to {'max' if last == MAX_NUMBER else last}"


def _reserved_text(value: Reserved) -> str:
    if isinstance(value, str):
        return f'"{value.translate(_ESCAPES)}"'
    first, last = value
    return str(first) if first == last else f"{first} to {last}"


def _reserved_order(value: Reserved) -> tuple[bool, int, str]:
    return (True, 0, value) if isinstance(value, str) else (False, value[0], str(value[1]))


def _key(entry: tuple[str, Value]) -> str:
    return entry[0]
