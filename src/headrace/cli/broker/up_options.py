"""The options of `headrace up`, and a quick way to read those that are written plainly.

A broker should start fast, and the library that reads command lines takes a fifth of the time. So
`plain_options` reads a command line that leaves no question open, and declines every other one:
then the library reads it, prints help, or says what is wrong. What it does not decline it reads as
the library does; `tests/property/cli/test_up_options.py` compares the two.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple


class UpOptions(NamedTuple):
    """What the command line says; None, or the default, where it says nothing."""

    listen: str | None = None
    data: Path | None = None
    advertise: str | None = None
    brokers: str = "1"
    zookeeper: str | None = None
    broker_id: int | None = None
    beside: tuple[str, ...] = ()
    config: Path | None = None
    settings: tuple[str, ...] = ()
    log_level: str = "info"
    log_format: str = "text"


_COMMAND: Final = "up"
_SETTING: Final = "-X"
_TEXTS: Final = {
    "--listen": "listen",
    "--advertise": "advertise",
    "--brokers": "brokers",
    "--zookeeper": "zookeeper",
    "--log-level": "log_level",
    "--log-format": "log_format",
}
_PATHS: Final = {"--data": "data", "--config": "config"}
_REPEATED: Final = {"--with": "beside", _SETTING: "settings"}
_NUMBERS: Final = {"--broker-id": "broker_id"}


def plain_options(arguments: Sequence[str]) -> UpOptions | None:
    """Return the options of `headrace up ...`; None for another command, or when the command line
    is not plain: an option that is not known, or a value that is missing or looks like an option.

    >>> plain_options(["up", "--listen", "127.0.0.1:9192", "-X", "num.partitions=6"]).settings
    ('num.partitions=6',)
    >>> plain_options(["up", "--help"]) is None
    True
    """
    if not arguments or arguments[0] != _COMMAND:
        return None
    values: dict[str, object] = {}
    repeated: dict[str, list[str]] = {}
    words = iter(arguments[1:])
    for word in words:
        name, value = _split(word)
        if value is None:
            value = next(words, "")
        if not value or value.startswith("-"):
            return None
        if name in _REPEATED:
            repeated.setdefault(_REPEATED[name], []).append(value)
        elif name in _TEXTS:
            values[_TEXTS[name]] = value
        elif name in _PATHS:
            values[_PATHS[name]] = Path(value)
        elif name in _NUMBERS and value.isascii() and value.isdigit():
            values[_NUMBERS[name]] = int(value)
        else:
            return None
    values.update({name: tuple(each) for name, each in repeated.items()})
    return UpOptions(**values)  # type: ignore[arg-type]


def _split(word: str) -> tuple[str, str | None]:
    """Return an option's name, and its value if that is in the same word."""
    if word.startswith("--"):
        name, equals, value = word.partition("=")
        return name, value if equals else None
    if word.startswith(_SETTING) and len(word) > len(_SETTING):
        return _SETTING, word.removeprefix(_SETTING)
    return word, None
