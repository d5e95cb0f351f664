"""Regular expressions of schemas: checked when they are read, matched against names of properties.

They come from users and are matched against users' names, so they are matched by RE2, in linear
time. An expression that only a backtracking engine knows (look-around, back references) is taken,
and counts as matching no property.
"""

import re
from typing import Final

import re2

MAX_PATTERN_CHARACTERS: Final = 4096
_MAX_MEMORY_BYTES: Final = 256 * 1024
# What one table compiles: characters, and steps of counted repeats, which are written out. About
# 4 µs each, so a schema of nothing but expressions costs half a second. The rest is taken as it is.
_MAX_WORK: Final = 150_000
_MAX_REPEAT: Final = 1000
_REPEAT: Final = re.compile(r"\{(\d+)(?:,(\d*))?\}")
# What RE2 leaves out on purpose or for its size; it may be good in ECMAScript.
_BACKTRACKING: Final = re.compile(r"\(\?<?[=!]|\\[1-9]|\\k<|\\u|\\c|\{\d|\(\?<|\(\?>|[*+?]\+")


class PatternTable:
    """The expressions of one schema, or of two that are compared; each is compiled once."""

    def __init__(self) -> None:
        self._compiled: dict[str, re2.Set | None] = {}
        self._left = _MAX_WORK

    def fault(self, pattern: str) -> str | None:
        """Return what a pattern must be if this is none; None if it is good, or not looked at."""
        if len(pattern) > MAX_PATTERN_CHARACTERS:
            return f"a regular expression of at most {MAX_PATTERN_CHARACTERS} characters"
        bad = self._expressions(pattern) is None and not _BACKTRACKING.search(pattern)
        if bad and self._left >= 0:
            return f"a regular expression, which {pattern[:60]!r} is not"
        return None

    def matches(self, pattern: str, name: str) -> bool:
        """Return whether the pattern is found in the name."""
        expressions = self._expressions(pattern)
        return expressions is not None and bool(expressions.Match(name))

    def _expressions(self, pattern: str) -> "re2.Set | None":
        if pattern not in self._compiled:
            self._left -= _work(pattern)
            self._compiled[pattern] = _compiled(pattern) if self._left >= 0 else None
        return self._compiled[pattern]


def _work(pattern: str) -> int:
    repeats = _REPEAT.findall(pattern)
    # Repeats inside repeats multiply; RE2 takes at most 1,000 of them together.
    product = 1
    for least, most in repeats:
        product = min(_MAX_REPEAT, product * max(int(most or least), 1))
    return len(pattern) + len(repeats) * product


def _compiled(pattern: str) -> "re2.Set | None":
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MAX_MEMORY_BYTES
    # A set of one: `re2.compile` would keep the last 128 expressions of all users in memory.
    expressions = re2.Set.SearchSet(options)
    try:
        expressions.Add(pattern)
        expressions.Compile()
    except re2.error:
        return None
    return expressions
