"""Stretches of time as people write them."""

import re

from headrace.model.error import ConfigError

_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0}


def parse_duration(text: str) -> float:
    """Seconds of `30s`, `2m`, `1h`.

    >>> parse_duration("2m")
    120.0

    Raises:
        ConfigError: it is none of these.
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", text.strip())
    if found is None or float(found[1]) == 0:
        raise ConfigError(f"a time cannot be {text!r}: write it as 30s, 2m or 1h")
    return float(found[1]) * _SECONDS[found[2] or "s"]
