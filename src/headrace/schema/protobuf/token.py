"""The tokens of a .proto file."""

import re
from typing import Final, NamedTuple

from headrace.schema.error import InvalidSchema

_PATTERN: Final = re.compile(
    r"""
    (?P<space>\s+|//[^\n]*|/\*.*?\*/)
    | (?P<word>[A-Za-z_][A-Za-z0-9_]*)
    | (?P<number>0[xX][0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)
    | (?P<text>"(?:[^"\\\n]|\\.)*+"|'(?:[^'\\\n]|\\.)*+')
    | (?P<sign>[{}\[\]()<>=;,.:+/-])
    """,
    re.VERBOSE | re.DOTALL,
)
_ESCAPE: Final = re.compile(
    r"\\([0-7]{1,3}|[xX][0-9a-fA-F]{1,2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|.)", re.DOTALL
)
_ESCAPED: Final = {
    "a": "\a",
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
}


class Token(NamedTuple):
    """A word, number, text or sign and where it begins; the end of the file is an empty sign."""

    kind: str
    value: str
    position: int


def tokens_of(text: str) -> list[Token]:
    """Cut a file into words; comments and spaces are left out."""
    found: list[Token] = []
    position = 0
    while position < len(text):
        match = _PATTERN.match(text, position)
        if match is None:
            raise InvalidSchema(
                f"{text[position : position + 20]!r} at {place_of(text, position)} is no Protobuf"
            )
        kind = match.lastgroup
        if kind is not None and kind != "space":
            found.append(Token(kind, match.group(), position))
        position = match.end()
    found.append(Token("sign", "", len(text)))
    return found


def place_of(text: str, position: int) -> str:
    """Return line and column of a position, as a message says it."""
    line = text.count("\n", 0, position) + 1
    column = position - text.rfind("\n", 0, position)
    return f"line {line}, column {column}"


def unquoted(text: str) -> str:
    """Return what a quoted text stands for."""
    return _ESCAPE.sub(_character, text[1:-1])


def _character(match: re.Match[str]) -> str:
    escape = match.group(1)
    if escape[0] in "01234567":
        return chr(int(escape, 8) & 0xFF)
    if escape[0] in "xXuU" and len(escape) > 1:
        code = int(escape[1:], 16)
        return chr(code) if code < 0x110000 and not 0xD800 <= code < 0xE000 else "\ufffd"
    return _ESCAPED.get(escape, escape)
