"""From the text of a .proto file to its tree: proto2, proto3 and editions."""

from typing import Final

from headrace.schema.error import InvalidSchema
from headrace.schema.protobuf.option_parser import OptionParser
from headrace.schema.protobuf.tree import (
    MAX_ENUM_NUMBER,
    MAX_NUMBER,
    Constant,
    Enum,
    Extend,
    Field,
    Message,
    OneOf,
    Options,
    ProtoFile,
    Reserved,
    Rpc,
    Service,
)

# Protobuf's own compiler stops at 32.
_MAX_NESTING: Final = 32
_LABELS: Final = frozenset(["optional", "required", "repeated"])
_SYNTAXES: Final = frozenset(["proto2", "proto3"])
_EDITIONS: Final = frozenset(["2023", "2024"])


class ProtoParser(OptionParser):
    """Reads one file by recursive descent."""

    def file(self) -> ProtoFile:
        """Return the whole file's tree."""
        file = ProtoFile()
        while not self.at_end():
            if self.accept(";"):
                continue
            word = self.word()
            match word:
                case "syntax" | "edition":
                    self._syntax(word, file)
                case "package":
                    file.package = self.name()
                    self.expect(";")
                case "import":
                    self._import(file)
                case "option":
                    file.options.append(self.statement_option())
                case "message":
                    file.types.append(self._message(1))
                case "enum":
                    file.types.append(self._enum())
                case "extend":
                    file.extends.append(self._extend(None))
                case "service":
                    file.services.append(self._service())
                case _:
                    raise self.fault(f"{word!r} begins nothing that a file may hold")
        return file

    def _syntax(self, word: str, file: ProtoFile) -> None:
        self.expect("=")
        value = self.text()
        known = _SYNTAXES if word == "syntax" else _EDITIONS
        if value not in known:
            raise self.fault(
                f"the {word} {value!r} is not known; write {' or '.join(sorted(known))}"
            )
        if file.syntax is not None:
            raise self.fault("a file has one syntax")
        file.syntax = value
        self.expect(";")

    def _import(self, file: ProtoFile) -> None:
        public = self.accept("public")
        if not public:
            self.accept("weak")
        (file.public_imports if public else file.imports).append(self.text())
        self.expect(";")

    def _message(self, depth: int) -> Message:
        return self._body(Message(self.identifier()), depth)

    def _body(self, message: Message, depth: int) -> Message:
        if depth > _MAX_NESTING:
            raise InvalidSchema(f"messages are nested more than {_MAX_NESTING} deep")
        self.expect("{")
        while not self.accept("}"):
            if self.accept(";"):
                continue
            if self.looks_like_field():
                message.fields.append(self._field(message, depth))
                continue
            match self.word():
                case "message":
                    message.types.append(self._message(depth + 1))
                case "enum":
                    message.types.append(self._enum())
                case "oneof":
                    message.oneofs.append(self._oneof(message, depth))
                case "option":
                    message.options.append(self.statement_option())
                case "reserved":
                    message.reserved.append(self._reserved(MAX_NUMBER))
                case "extensions":
                    message.extensions.append(self._extensions())
                case "extend":
                    message.extends.append(self._extend(message))
                case word:
                    raise self.fault(f"{word!r} begins nothing that a message may hold")
        return message

    def _field(self, message: Message | None, depth: int, labels: bool = True) -> Field:
        label = None
        if labels and self.peek() in _LABELS and not self.follows("="):
            label = self.word()
        if self.peek() == "map" and self.follows("<"):
            return self._map(label)
        if self.peek() == "group" and not self.follows("=") and message is not None:
            return self._group(message, label, depth)
        kind = self.type_name()
        name = self.identifier()
        self.expect("=")
        number = self.integer()
        options = self.bracket_options()
        self.expect(";")
        return Field(name, number, kind, label, options=options)

    def _map(self, label: str | None) -> Field:
        if label is not None:
            raise self.fault(f"a map must not be {label}")
        self.word()
        self.expect("<")
        key = self.type_name()
        self.expect(",")
        value = self.type_name()
        self.expect(">")
        name = self.identifier()
        self.expect("=")
        number = self.integer()
        options = self.bracket_options()
        self.expect(";")
        return Field(name, number, key=key, value=value, options=options)

    def _group(self, message: Message, label: str | None, depth: int) -> Field:
        self.word()
        name = self.identifier()
        self.expect("=")
        number = self.integer()
        options = self.bracket_options()
        inner = Message(name, is_group=True)
        self._body(inner, depth + 1)
        message.types.append(inner)
        return Field(name.lower(), number, name, label, options=options, is_group=True)

    def _oneof(self, message: Message, depth: int) -> OneOf:
        oneof = OneOf(self.identifier())
        self.expect("{")
        while not self.accept("}"):
            if self.accept(";"):
                continue
            if self.peek() == "option" and not self.looks_like_field():
                self.word()
                oneof.options.append(self.statement_option())
            elif self.peek() in _LABELS and not self.follows("="):
                raise self.fault(f"a field of the oneof {oneof.name!r} must not have a label")
            else:
                oneof.fields.append(self._field(message, depth, labels=False))
        return oneof

    def _enum(self) -> Enum:
        enum = Enum(self.identifier())
        self.expect("{")
        while not self.accept("}"):
            if self.accept(";"):
                continue
            name = self.identifier()
            if name == "option" and self.peek() != "=":
                enum.options.append(self.statement_option())
            elif name == "reserved" and self.peek() != "=":
                enum.reserved.append(self._reserved(MAX_ENUM_NUMBER))
            else:
                self.expect("=")
                number = self.integer()
                enum.constants.append(Constant(name, number, self.bracket_options()))
                self.expect(";")
        return enum

    def _reserved(self, top: int) -> list[Reserved]:
        values: list[Reserved] = []
        while True:
            if self.at_text():
                values.append(self.text())
            elif self.at_word():
                values.append(self.identifier())
            else:
                values.append(self._range(top))
            if not self.accept(","):
                break
        self.expect(";")
        return values

    def _extensions(self) -> list[tuple[int, int]]:
        ranges = [self._range(MAX_NUMBER)]
        while self.accept(","):
            ranges.append(self._range(MAX_NUMBER))
        self.bracket_options()
        self.expect(";")
        return ranges

    def _range(self, top: int) -> tuple[int, int]:
        first = self.integer()
        if not self.accept("to"):
            return first, first
        last = top if self.accept("max") else self.integer()
        if last < first:
            raise self.fault(f"the range {first} to {last} ends before it begins")
        return first, last

    def _extend(self, message: Message | None) -> Extend:
        extend = Extend(self.type_name())
        self.expect("{")
        while not self.accept("}"):
            if not self.accept(";"):
                extend.fields.append(self._field(message, 1))
        return extend

    def _service(self) -> Service:
        service = Service(self.identifier())
        self.expect("{")
        while not self.accept("}"):
            if self.accept(";"):
                continue
            match self.word():
                case "option":
                    service.options.append(self.statement_option())
                case "rpc":
                    service.rpcs.append(self._rpc())
                case word:
                    raise self.fault(f"{word!r} begins nothing that a service may hold")
        return service

    def _rpc(self) -> Rpc:
        name = self.identifier()
        streams_request, request = self._rpc_type()
        if not self.accept("returns"):
            raise self.fault(f"the rpc {name!r} has no 'returns'")
        streams_response, response = self._rpc_type()
        options: Options = []
        if self.accept("{"):
            while not self.accept("}"):
                if self.accept(";"):
                    continue
                if self.word() != "option":
                    raise self.fault(f"the rpc {name!r} may hold options only")
                options.append(self.statement_option())
        else:
            self.expect(";")
        return Rpc(name, request, response, streams_request, streams_response, options)

    def _rpc_type(self) -> tuple[bool, str]:
        self.expect("(")
        streams = self.peek() == "stream" and not self.follows(")")
        if streams:
            self.word()
        kind = self.type_name()
        self.expect(")")
        return streams, kind
