"""One declaration per configuration key: name, type, default, bounds, documentation.

`describe configs`, the documentation page and validation all read the same `ConfigTable`, so a key
cannot be documented one way and checked another. Names and defaults are Kafka's wherever Kafka has
the key.
"""

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum

from headrace.model.error import ConfigError

ConfigValue = bool | int | float | str | tuple[str, ...] | None


class ConfigType(Enum):
    """Kafka's configuration types; the value is the code that DescribeConfigs answers."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


_INTEGER_RANGE = {
    ConfigType.SHORT: (-(2**15), 2**15 - 1),
    ConfigType.INT: (-(2**31), 2**31 - 1),
    ConfigType.LONG: (-(2**63), 2**63 - 1),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigKey:
    """One key.

    Attributes:
        minimum, maximum: inclusive bounds of a number.
        choices: the only texts allowed, for a string or for each item of a list.
        broker_default: the broker-level key that gives a topic key its default (Kafka calls them
            synonyms: `log.retention.ms` for `retention.ms`).
        dynamic: may change while the broker runs.
        without_effect: why the key is taken, for the sake of Kafka's tools and files, and changes
            nothing; None for a key that has an effect.
        bound_reason: why the values are bounded as they are, where Kafka would take others.
    """

    name: str
    type: ConfigType
    default: ConfigValue
    doc: str
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[str, ...] = ()
    broker_default: str | None = None
    dynamic: bool = True
    without_effect: str | None = None
    bound_reason: str | None = None

    @property
    def documentation(self) -> str:
        """What the key does, or why it does nothing."""
        if self.without_effect is None:
            return self.doc
        return f"{self.doc} Without effect: {self.without_effect}."

    @property
    def sensitive(self) -> bool:
        return self.type is ConfigType.PASSWORD

    def parse(self, text: str) -> ConfigValue:
        """Return the typed value of what a user wrote.

        Raises:
            ConfigError: with the key, what was written and what is allowed.
        """
        return _PARSERS[self.type](self, text.strip())

    def render(self, value: ConfigValue) -> str | None:
        """Return a value's text as Kafka prints it: the inverse of `parse`."""
        if value is None:
            return None
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, tuple):
            return ",".join(value)
        return str(value)

    def _wrong(self, text: str, allowed: str) -> ConfigError:
        shown = "(hidden)" if self.sensitive else repr(text)
        why = f", because {self.bound_reason}" if self.bound_reason else ""
        return ConfigError(f"{self.name} cannot be {shown}: {allowed}{why}")


def _parse_boolean(key: ConfigKey, text: str) -> ConfigValue:
    lowered = text.lower()
    if lowered not in ("true", "false"):
        raise key._wrong(text, "write true or false")
    _check_choice(key, lowered)
    return lowered == "true"


def _parse_integer(key: ConfigKey, text: str) -> ConfigValue:
    try:
        value = int(text)
    except ValueError:
        raise key._wrong(text, "write a whole number") from None
    low, high = _INTEGER_RANGE[key.type]
    return int(_bounded(key, text, value, low, high))


def _parse_double(key: ConfigKey, text: str) -> ConfigValue:
    try:
        value = float(text)
    except ValueError:
        raise key._wrong(text, "write a number") from None
    return float(_bounded(key, text, value, -1.8e308, 1.8e308))


def _bounded(key: ConfigKey, text: str, value: float, low: float, high: float) -> float:
    low = low if key.minimum is None else key.minimum
    high = high if key.maximum is None else key.maximum
    if not low <= value <= high:
        bounds = f"it must be {low}" if low == high else f"it must lie between {low} and {high}"
        raise key._wrong(text, bounds)
    return value


def _parse_string(key: ConfigKey, text: str) -> ConfigValue:
    _check_choice(key, text)
    return text


def _parse_list(key: ConfigKey, text: str) -> ConfigValue:
    items = tuple(item.strip() for item in text.split(",") if item.strip())
    for item in items:
        _check_choice(key, item)
    return items


def _check_choice(key: ConfigKey, text: str) -> None:
    if key.choices and text not in key.choices:
        raise key._wrong(text, "write one of " + ", ".join(key.choices))


_PARSERS: Mapping[ConfigType, Callable[[ConfigKey, str], ConfigValue]] = {
    ConfigType.BOOLEAN: _parse_boolean,
    ConfigType.STRING: _parse_string,
    ConfigType.CLASS: _parse_string,
    ConfigType.PASSWORD: _parse_string,
    ConfigType.INT: _parse_integer,
    ConfigType.SHORT: _parse_integer,
    ConfigType.LONG: _parse_integer,
    ConfigType.DOUBLE: _parse_double,
    ConfigType.LIST: _parse_list,
}


@dataclass(frozen=True)
class ConfigTable:
    """All keys of one kind of resource, by name."""

    kind: str
    keys: Mapping[str, ConfigKey] = field(default_factory=dict)

    @classmethod
    def of(cls, kind: str, keys: Iterable[ConfigKey]) -> "ConfigTable":
        by_name: dict[str, ConfigKey] = {}
        for key in keys:
            assert key.name not in by_name, f"{key.name} is declared twice"
            by_name[key.name] = key
        return cls(kind, by_name)

    def __iter__(self) -> Iterator[ConfigKey]:
        return iter(self.keys.values())

    def __contains__(self, name: str) -> bool:
        return name in self.keys

    def __getitem__(self, name: str) -> ConfigKey:
        """Return the key called `name`.

        Raises:
            ConfigError: naming the nearest known key.
        """
        key = self.keys.get(name)
        if key is None:
            near = difflib.get_close_matches(name, self.keys, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise ConfigError(f"{self.kind} has no configuration key {name!r}{hint}")
        return key

    def defaults(self) -> dict[str, ConfigValue]:
        return {key.name: key.default for key in self}

    def parse(self, texts: Mapping[str, str]) -> dict[str, ConfigValue]:
        """Return the typed values of exactly the keys that were written."""
        return {name: self[name].parse(text) for name, text in texts.items()}

    def problems(self, texts: Mapping[str, str]) -> dict[str, str]:
        """Return what is wrong with texts that were stored, by key. Another version of this program
        may have stored them, and what it knew must not keep this one from working.

        >>> ConfigTable("a topic").problems({"no.such.key": "1"})
        {'no.such.key': "a topic has no configuration key 'no.such.key'"}
        """
        found: dict[str, str] = {}
        for name, text in texts.items():
            try:
                self[name].parse(text)
            except ConfigError as error:
                found[name] = str(error)
        return found
