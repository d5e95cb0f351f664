r"""How `topic produce` reads a line: `-f '%k\t%v'`, or the whole line as the value."""

import re
from typing import Final, NamedTuple

from headrace.cli.terminal.escape import unescape
from headrace.model.error import InvalidArgument

_VERB: Final = re.compile(r"%(.?)")
_FIELDS: Final = {"k": "key", "v": "value", "p": "partition"}


class ParsedLine(NamedTuple):
    """One record. None where the format has no such field."""

    key: bytes | None
    value: bytes | None
    partition: int | None


class LineFormat:
    """A compiled format: `%k`, `%v` and `%p` with text between them. A field ends where the text
    after it first occurs; the last one is the rest of the line.

    >>> LineFormat("%k: %v").parse(b"alice: 3: 4", 1)
    ParsedLine(key=b'alice', value=b'3: 4', partition=None)

    Raises:
        InvalidArgument: a field does not exist, occurs twice, or has no text before the next one.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        text = text.removesuffix(r"\n")
        pattern = []
        literal = b""
        at = 0
        seen: set[str] = set()
        for verb in _VERB.finditer(text):
            literal += unescape(text[at : verb.start()])
            at = verb.end()
            if verb[1] == "%":
                literal += b"%"
                continue
            name = _FIELDS.get(verb[1])
            if name is None or name in seen:
                raise InvalidArgument(f"{text!r} is no format: write %k, %v, %p, each once, and %%")
            if seen and not literal:
                raise InvalidArgument(f"{text!r} is no format: put something between two fields")
            seen.add(name)
            pattern.append(re.escape(literal) + b"(?P<%b>.*?)" % name.encode())
            literal = b""
        pattern.append(re.escape(literal + unescape(text[at:])))
        if not seen:
            raise InvalidArgument(f"{text!r} is no format: it holds neither %k nor %v")
        self._pattern = re.compile(b"".join(pattern), re.DOTALL)

    def parse(self, line: bytes, number: int) -> ParsedLine:
        """Read one line.

        Raises:
            InvalidArgument: the line does not match the format; the message names it.
        """
        match = self._pattern.fullmatch(line)
        if match is None:
            raise InvalidArgument(
                f"line {number} does not look like {self._text!r}: {_shortened(line)}"
            )
        fields = match.groupdict()
        partition = fields.get("partition")
        if partition is not None and not partition.isdigit():
            raise InvalidArgument(f"line {number}: {_shortened(partition)} is no partition")
        return ParsedLine(
            fields.get("key"), fields.get("value"), None if partition is None else int(partition)
        )


def _shortened(data: bytes) -> str:
    text = data[:60].decode(errors="replace")
    return repr(text + "..." if len(data) > 60 else text)
