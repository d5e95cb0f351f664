"""Splitting a script into tokens: just enough to find our own keywords around Spark's SQL."""

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
        """A string or name without its quotes; other tokens unchanged."""
        if self.kind == "string":
            return _ESCAPE.sub(lambda match: match[1] or match[2], self.text[1:-1])
        if self.kind == "name":
            return self.text[1:-1].replace("``", "`")
        return self.text


def tokens_of(script: str) -> Iterator[Token]:
    """Yield all tokens but space and comments.

    Raises:
        SqlError: a text, a name or a comment does not end.
    """
    at = 0
    while at < len(script):
        match = _TOKEN.match(script, at)
        if match is None or (match.lastgroup == "mark" and script.startswith("/*", at)):
            why = _OPEN.get(script[at], "a comment that is not closed")
            raise SqlError(f"{why} begins here", script, at)
        assert match.lastgroup is not None
        if match.lastgroup != "space":
            yield Token(match.lastgroup, match[0], at)
        at = match.end()
