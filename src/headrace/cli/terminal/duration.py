"""Durations as people write them: 30s, 2m, 1h."""

import re

from headrace.model.error import ConfigError

_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0}


def parse_duration(text: str) -> float:
    """Return the seconds of `30s`, `2m` or `1h`; a bare number is seconds.

    >>> parse_duration("2m")
    120.0

    Raises:
        ConfigError: the text is no such duration, or is zero.
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", text.strip())
    if match is None or float(match[1]) == 0:
        raise ConfigError(f"a time cannot be {text!r}: write it as 30s, 2m or 1h")
    return float(match[1]) * _SECONDS[match[2] or "s"]
