"""The reader of words under the parser, and options, which occur everywhere."""

from typing import Final

from headrace.schema.error import InvalidSchema
from headrace.schema.protobuf.token import Token, place_of, tokens_of, unquoted
from headrace.schema.protobuf.tree import Block, Option, Options, Text, Value, Values, Word

_MAX_OPTION_NESTING: Final = 32


class OptionParser:
    """Goes through the words of one file."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = tokens_of(text)
        self._next = 0

    def at_end(self) -> bool:
        return self._token.position == len(self._text)

    def peek(self) -> str:
        """Return the next word or sign without going past it."""
        return "" if self._token.kind == "text" else self._token.value

    def at_word(self) -> bool:
        return self._token.kind == "word"

    def at_text(self) -> bool:
        return self._token.kind == "text"

    def follows(self, sign: str) -> bool:
        """Return whether the sign comes after the next word."""
        return self._at(1).value == sign

    def looks_like_field(self) -> bool:
        """Return whether a field begins here, even one whose type is called like a keyword."""
        first, second, third = self._at(0), self._at(1), self._at(2)
        if first.value in ("optional", "required", "repeated") or first.value == ".":
            return True
        if first.value == "map" and second.value == "<":
            return True
        if first.value == "group":
            return second.kind == "word"
        if second.value == ".":
            return True
        return second.kind == "word" and third.value == "=" and first.value not in ("option",)

    def accept(self, value: str) -> bool:
        if self._token.value == value and self._token.kind != "text":
            self._next += 1
            return True
        return False

    def expect(self, value: str) -> None:
        if not self.accept(value):
            raise self.fault(f"{value!r} is missing before {self._token.value[:40]!r}")

    def word(self) -> str:
        if not self.at_word():
            raise self.fault(f"{self._token.value[:40]!r} stands where a word belongs")
        return self._take().value

    def identifier(self) -> str:
        return self.word()

    def name(self) -> str:
        """Return a name with dots."""
        parts = [self.word()]
        while self.accept("."):
            parts.append(self.word())
        return ".".join(parts)

    def type_name(self) -> str:
        """Return a type's name, which may begin with a dot."""
        leading = "." if self.accept(".") else ""
        return leading + self.name()

    def text(self) -> str:
        """Return a quoted text; several side by side are one."""
        if not self.at_text():
            raise self.fault(f"{self._token.value[:40]!r} stands where a quoted text belongs")
        parts = []
        while self.at_text():
            parts.append(unquoted(self._take().value))
        return "".join(parts)

    def integer(self) -> int:
        negative = self.accept("-")
        token = self._take()
        digits = token.value
        try:
            if len(digits) > 30:
                raise ValueError
            octal = digits.startswith("0") and digits.isdecimal() and len(digits) > 1
            number = int(digits, 8) if octal else int(digits, 0)
        except ValueError:
            raise self.fault(f"{digits[:40]!r} is no whole number") from None
        return -number if negative else number

    def statement_option(self) -> Option:
        """Read what follows the word `option`."""
        option = self._option()
        self.expect(";")
        return option

    def bracket_options(self) -> Options:
        """Read `[name = value, ...]`, if it is there."""
        options: Options = []
        if not self.accept("["):
            return options
        while True:
            options.append(self._option())
            if not self.accept(","):
                break
        self.expect("]")
        return options

    def fault(self, sentence: str) -> InvalidSchema:
        """Return the error that says what is wrong at the last word."""
        position = self._tokens[max(self._next - 1, 0)].position
        return InvalidSchema(f"{sentence} ({place_of(self._text, position)})")

    def _option(self) -> Option:
        name = self._option_name()
        self.expect("=")
        return Option(name, self._value(1))

    def _option_name(self) -> str:
        parts: list[str] = []
        while True:
            if self.accept("("):
                parts.append(f"({self.type_name()})")
                self.expect(")")
            else:
                parts.append(self.word())
            if not self.accept("."):
                return ".".join(parts)

    def _value(self, depth: int) -> Value:
        if depth > _MAX_OPTION_NESTING:
            raise InvalidSchema(f"an option is nested more than {_MAX_OPTION_NESTING} deep")
        if self.at_text():
            return Text(self.text())
        if self.accept("{"):
            return self._block("}", depth)
        if self.accept("<"):
            return self._block(">", depth)
        if self.accept("["):
            return self._list(depth)
        sign = "-" if self.accept("-") else ""
        if not sign:
            self.accept("+")
        if self._token.kind not in ("word", "number"):
            raise self.fault(f"{self._token.value[:40]!r} is no value of an option")
        word = self._take().value
        while self.accept("."):
            word += "." + self.word()
        return Word(sign + word)

    def _list(self, depth: int) -> Values:
        items: list[Value] = []
        while not self.accept("]"):
            items.append(self._value(depth + 1))
            if not self.accept(","):
                self.expect("]")
                break
        return Values(tuple(items))

    def _block(self, end: str, depth: int) -> Block:
        entries: list[tuple[str, Value]] = []
        while not self.accept(end):
            if self.accept("["):
                key = f"[{self._url()}]"
                self.expect("]")
            else:
                key = self.word()
            self.accept(":")
            entries.append((key, self._value(depth + 1)))
            if not self.accept(","):
                self.accept(";")
        return Block(tuple(entries))

    def _url(self) -> str:
        parts = [self.name()]
        while self.accept("/"):
            parts.append(self.name())
        return "/".join(parts)

    @property
    def _token(self) -> Token:
        return self._at(0)

    def _at(self, ahead: int) -> Token:
        return self._tokens[min(self._next + ahead, len(self._tokens) - 1)]

    def _take(self) -> Token:
        token = self._token
        if self.at_end():
            raise self.fault("the file ends too early")
        self._next += 1
        return token
