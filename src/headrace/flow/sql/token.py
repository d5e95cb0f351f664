"""A script as tokens with their places: just enough to find our own words around Spark's SQL."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from headrace.flow.sql.error import SqlError

_TOKEN = re.compile(
    r"""
    (?P<space>\s+|--[^\n]*|/\*.*?\*/)
  | (?P<string>'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*")
  | (?P<name>`(?:[^`]|``)+`)
  | (?P<word>[A-Za-z_]\w*)
  | (?P<number>\d+(?:\.\d+)?)
  | (?P<mark>[^\s\w'"`])
  """,
    re.VERBOSE | re.DOTALL,
)
_OPEN = {"'": "a text that is not closed", '"': "a text that is not closed", "`": "an open name"}
_ESCAPE = re.compile(r"\\(.)|(['\"])\2", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Token:
    """`kind` is word, name (in back quotes), string, number or mark."""

    kind: str
    text: str
    start: int

    @property
    def end(self) -> int:
        return self.start + len(self.text)

    def is_word(self, *words: str) -> bool:
        return self.kind == "word" and self.text.upper() in words

    @property
    def value(self) -> str:
        """A string or name without its quotes; others as they are."""
        if self.kind == "string":
            return _ESCAPE.sub(lambda found: found[1] or found[2], self.text[1:-1])
        if self.kind == "name":
            return self.text[1:-1].replace("``", "`")
        return self.text


def tokens_of(script: str) -> Iterator[Token]:
    """Everything but space and comments.

    Raises:
        SqlError: a text, a name or a comment that does not end.
    """
    at = 0
    while at < len(script):
        found = _TOKEN.match(script, at)
        if found is None or (found.lastgroup == "mark" and script.startswith("/*", at)):
            why = _OPEN.get(script[at], "a comment that is not closed")
            raise SqlError(f"{why} begins here", script, at)
        assert found.lastgroup is not None
        if found.lastgroup != "space":
            yield Token(found.lastgroup, found[0], at)
        at = found.end()
