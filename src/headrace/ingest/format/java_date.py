"""Date patterns of Java, translated to Python's."""

import re

_LETTERS = re.compile(r"'([^']*)'|([A-Za-z])\2*|%")
_PYTHON = {
    "yyyy": "%Y",
    "yy": "%y",
    "MM": "%m",
    "M": "%m",
    "MMM": "%b",
    "MMMM": "%B",
    "dd": "%d",
    "d": "%d",
    "HH": "%H",
    "H": "%H",
    "hh": "%I",
    "mm": "%M",
    "m": "%M",
    "ss": "%S",
    "s": "%S",
    "a": "%p",
    "EEE": "%a",
    "EEEE": "%A",
    "Z": "%z",
    "z": "%Z",
    "XXX": "%z",
    "X": "%z",
}


def strptime_format(pattern: str) -> str:
    """Return the pattern for `time.strptime`.

    >>> strptime_format("yyyy-MM-dd'T'HH:mm")
    '%Y-%m-%dT%H:%M'

    Raises:
        ValueError: a letter has no counterpart in Python.
    """

    def translate(match: re.Match[str]) -> str:
        if match.group(0) == "%":
            return "%%"
        if match.group(1) is not None:
            return match.group(1).replace("%", "%%") or "'"
        if match.group(0) not in _PYTHON:
            raise ValueError(f"{match.group(0)!r} is not understood")
        return _PYTHON[match.group(0)]

    return _LETTERS.sub(translate, pattern)
