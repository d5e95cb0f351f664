"""Java's properties format, with the line of every entry kept for error messages.

The format is that of `java.util.Properties`: `key = value`, `key: value` or `key value`; comments
start with `#` or `!`; a backslash at the end of a line continues it in the next; `\\t`, `\\n`,
`\\uXXXX` and the like are escapes, and a backslash before any other character is dropped.

Every properties file is read here: an agent's, a broker's, a Samza job's and `flow --filter`.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from headrace.model.error import ConfigError

_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
VARIABLE = re.compile(r"\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_.]*)\}")
_SPACE = " \t\f"
# Far more than people write by hand: a larger file is no configuration.
MAX_BYTES = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class PropertyEntry:
    """A value, and the line of the file on which its key begins."""

    value: str
    line: int


def read_properties(path: Path, environment: Mapping[str, str]) -> dict[str, PropertyEntry]:
    """Return the entries of a file by key; the last one of a key wins, as in Java.

    `${NAME}` and `${env:NAME}` are replaced by environment variables. An unknown one stays as it
    is, as in Flume, whose users write `${...}` in shell commands too.

    Raises:
        ConfigError: the file cannot be read.
    """
    return parse_properties(_read_text(path), environment)


def property_values(path: Path) -> dict[str, str]:
    """Return the values of a file by key, without environment variables and surrounding space.

    Stricter than Java: a line without `=` is refused. A broker whose `authorizer.class.name` lost
    its value must not start without an authorizer.

    Raises:
        ConfigError: the file cannot be read, or a line has no key or no separator.
    """
    values: dict[str, str] = {}
    for number, line in _logical_lines(_read_text(path)):
        key, value, separated = _split(line)
        if not key or not separated:
            what = f"{key!r} has no '='" if key else "there is no key before the '='"
            raise ConfigError(f"{path}, line {number}: {what}; write key=value")
        values[key] = value.strip()
    return values


def _read_text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror or error}") from error
    if len(data) > MAX_BYTES:
        raise ConfigError(f"{path} has more than {MAX_BYTES} bytes: it is no configuration")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return data.decode("latin-1")  # the encoding that Java's own reader assumes


def parse_properties(text: str, environment: Mapping[str, str]) -> dict[str, PropertyEntry]:
    """Return the entries of a text by key.

    >>> parse_properties("a.sources = r1 \\\\\\n  r2", {})
    {'a.sources': PropertyEntry(value='r1 r2', line=1)}
    """

    def resolve(match: re.Match[str]) -> str:
        return environment.get(match.group(1), match.group(0))

    entries: dict[str, PropertyEntry] = {}
    for number, line in _logical_lines(text):
        key, value, _ = _split(line)
        entries[key] = PropertyEntry(VARIABLE.sub(resolve, value), number)
    return entries


def format_properties(values: Mapping[str, str]) -> str:
    r"""Return a text that `property_values` reads as these values.

    >>> format_properties({"a b": "c=d\n"})
    'a\\ b=c=d\\n\n'
    """
    return "".join(
        f"{_escape(key, ' =:#!')}={_escape(value, '')}\n" for key, value in values.items()
    )


def _escape(text: str, more: str) -> str:
    letters = {value: key for key, value in _ESCAPES.items()} | {each: each for each in "\\" + more}
    return "".join(f"\\{letters[each]}" if each in letters else each for each in text)


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield lines with their numbers, joined after a backslash, without comments and empty
    lines."""
    start, parts = 0, ""
    for number, raw in enumerate(re.split(r"\r\n|\r|\n", text), 1):
        line = raw.lstrip(_SPACE)
        if not start:
            if not line or line[0] in "#!":
                continue
            start = number
        slashes = len(line) - len(line.rstrip("\\"))
        if slashes % 2:
            parts += line[:-1]
            continue
        yield start, parts + line
        start, parts = 0, ""
    if start:
        yield start, parts


def _split(line: str) -> tuple[str, str, bool]:
    """Return key, value, and whether something separates them."""
    position = 0
    while position < len(line) and line[position] not in "=: \t\f":
        position += 2 if line[position] == "\\" else 1
    key, rest = line[:position], line[position:].lstrip(_SPACE)
    separated = bool(rest)
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(_SPACE)
    return _unescape(key), _unescape(rest), separated


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    out: list[str] = []
    position = 0
    while position < len(text):
        character = text[position]
        if character != "\\" or position + 1 == len(text):
            out.append(character if character != "\\" else "")
            position += 1
            continue
        escaped = text[position + 1]
        digits = text[position + 2 : position + 6]
        if escaped == "u" and re.fullmatch(r"[0-9A-Fa-f]{4}", digits):
            out.append(chr(int(digits, 16)))
            position += 6
            continue
        out.append(_ESCAPES.get(escaped, escaped))
        position += 2
    return "".join(out)
