"""The settings of a component: declared once, for validation, the component and the docs."""

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from headrace.config.properties import PropertyEntry
from headrace.model.config import ConfigKey, ConfigType, ConfigValue
from headrace.model.error import ConfigError

_LONG_MAX = 2**63 - 1
_SIMILARITY = 0.7
# A component that ignored such a key would look closed and be open, so none is ignored.
_SECURITY = re.compile(
    r"(?<![a-zA-Z])(?:ssl|tls)|SSL|Ssl|TLS"
    r"|(?i:key-?store|trust-?store|trust-all|kerberos|keytab|principal|sasl|passw|secret|security"
    r"|encrypt|cipher|ip-?filter|proxy-?user|certificate|(?:ex|in)clude-?protocols|authenti|authori)"
)


class SettingError(ConfigError):
    """A setting cannot be used; `key` is its name within the component."""

    def __init__(self, key: str, message: str) -> None:
        super().__init__(message)
        self.key = key


@dataclass(frozen=True, slots=True)
class Setting:
    """The declaration of one setting of a component.

    Attributes:
        required: the configuration must have it.
        prefix: it declares every key that starts with `<name>.`, with texts as values.
        other_names: Flume's older names of the setting.
        refusal: why a value other than false is an error; None for a setting that has an effect.
    """

    key: ConfigKey
    required: bool = False
    prefix: bool = False
    other_names: tuple[str, ...] = ()
    refusal: str | None = None

    @property
    def name(self) -> str:
        return self.key.name


def text(
    name: str,
    doc: str,
    default: str | None = None,
    *,
    choices: tuple[str, ...] = (),
    required: bool = False,
    other_names: tuple[str, ...] = (),
) -> Setting:
    """Declare a text, or one of some `choices`."""
    key = ConfigKey(name=name, type=ConfigType.STRING, default=default, doc=doc, choices=choices)
    return Setting(key, required=required, other_names=other_names)


def secret(name: str, doc: str, *, other_names: tuple[str, ...] = ()) -> Setting:
    """Declare a password, which is never printed."""
    key = ConfigKey(name=name, type=ConfigType.PASSWORD, default=None, doc=doc)
    return Setting(key, other_names=other_names)


def number(
    name: str,
    doc: str,
    default: int | None = None,
    *,
    minimum: int = 0,
    maximum: int = _LONG_MAX,
    required: bool = False,
    other_names: tuple[str, ...] = (),
) -> Setting:
    """Declare a whole number."""
    key = ConfigKey(
        name=name,
        type=ConfigType.LONG,
        default=default,
        doc=doc,
        minimum=minimum,
        maximum=maximum,
    )
    return Setting(key, required=required, other_names=other_names)


def port(doc: str, default: int | None = None, name: str = "port") -> Setting:
    """Declare a port; 0 is any free one, for tests."""
    return number(name, doc, default, maximum=65_535, required=default is None)


def flag(name: str, doc: str, default: bool, *, other_names: tuple[str, ...] = ()) -> Setting:
    """Declare true or false."""
    key = ConfigKey(name=name, type=ConfigType.BOOLEAN, default=default, doc=doc)
    return Setting(key, other_names=other_names)


def refused(name: str, reason: str) -> Setting:
    """Declare a setting of Flume's that protects something and is not supported: a value is an
    error.

    Args:
        reason: what to do instead.
    """
    key = ConfigKey(name=name, type=ConfigType.STRING, default=None, doc="Not supported.")
    return Setting(key, refusal=reason)


def is_security_key(name: str) -> bool:
    """Return whether a key, by its name, protects something."""
    return _SECURITY.search(name) is not None


def prefix(name: str, doc: str) -> Setting:
    """Declare all keys that start with `<name>.`."""
    key = ConfigKey(name=name, type=ConfigType.STRING, default=None, doc=doc)
    return Setting(key, prefix=True)


class Settings:
    """The values of one component's settings, typed by its declarations.

    Example:
        settings = Settings.of(NetcatSource.SETTINGS, entries, "source r1")
        settings.number("port")

    Attributes:
        whose: the component in messages: "source r1".
        unknown: keys without a declaration. Flume ignores them, so they are warnings; those that
            protect something are mistakes.
    """

    def __init__(
        self,
        whose: str,
        entries: Mapping[str, PropertyEntry],
        values: Mapping[str, ConfigValue],
        unknown: tuple[str, ...],
        written: frozenset[str],
    ) -> None:
        self.whose = whose
        self.unknown = unknown
        self._entries = entries
        self._values = values
        self._written = written

    @classmethod
    def of(
        cls,
        declared: Iterable[Setting],
        entries: Mapping[str, PropertyEntry],
        whose: str = "component",
    ) -> "Settings":
        """Return the values of a component's entries.

        Raises:
            SettingError: a value is invalid, or a required key is missing.
        """
        settings, mistakes = cls.read(declared, entries, whose)
        if mistakes:
            raise mistakes[0]
        return settings

    @classmethod
    def read(
        cls, declared: Iterable[Setting], entries: Mapping[str, PropertyEntry], whose: str
    ) -> tuple["Settings", list[SettingError]]:
        """Return the valid values, and every mistake in the others."""
        settings = list(declared)
        names = {each.name: each for each in settings if not each.prefix}
        names |= {other: each for each in settings for other in each.other_names}
        prefixes = tuple(f"{each.name}." for each in settings if each.prefix)
        values: dict[str, ConfigValue] = {
            each.name: each.key.default for each in settings if not each.prefix
        }
        unknown = []
        written = set()
        mistakes: list[SettingError] = []
        for name, entry in entries.items():
            setting = names.get(name)
            if setting is None:
                if name.startswith(prefixes):
                    continue
                if is_security_key(name):
                    mistakes.append(SettingError(name, f"{name} is not supported: remove it"))
                else:
                    unknown.append(name)
                continue
            if setting.refusal is not None:
                if entry.value.strip().lower() not in ("", "false"):
                    mistakes.append(
                        SettingError(name, f"{name} is not supported: {setting.refusal}")
                    )
                continue
            written.add(setting.name)
            try:
                values[setting.name] = setting.key.parse(entry.value)
            except ConfigError as error:
                mistakes.append(SettingError(name, str(error)))
        mistakes += [
            SettingError(each.name, f"{each.name} is missing: {each.key.doc}")
            for each in settings
            if each.required and each.name not in written
        ]
        return cls(whose, entries, values, tuple(unknown), frozenset(written)), mistakes

    @classmethod
    def from_texts(cls, declared: Iterable[Setting], texts: Mapping[str, str]) -> "Settings":
        """Return the values of a component that a program creates without a file."""
        entries = {name: PropertyEntry(value, 0) for name, value in texts.items()}
        return cls.of(declared, entries)

    def text(self, name: str) -> str:
        """Return the value of a setting that has one."""
        return str(self._value(name))

    def optional(self, name: str) -> str | None:
        """Return the value of a setting as text, or None."""
        value = self._values[name]
        return None if value is None else str(value)

    def number(self, name: str) -> int:
        value = self._value(name)
        assert isinstance(value, int)
        return value

    def flag(self, name: str) -> bool:
        return bool(self._value(name))

    def has(self, name: str) -> bool:
        """Return whether the configuration has the setting, by any of its names."""
        return name in self._written

    def words(self, name: str) -> list[str]:
        """Return a list, separated by white space as all of Flume's lists."""
        return (self.optional(name) or "").split()

    def below(self, name: str) -> dict[str, str]:
        """Return the values of all keys under a prefix, by the keys without it."""
        start = f"{name}."
        return {
            key.removeprefix(start): entry.value
            for key, entry in self._entries.items()
            if key.startswith(start)
        }

    def wrong(self, name: str, message: str) -> SettingError:
        """Return the error to raise for a value that the component cannot use."""
        return SettingError(name, message)

    def _value(self, name: str) -> ConfigValue:
        value = self._values[name]
        if value is None:
            raise SettingError(name, f"{name} is missing from {self.whose}")
        return value


def nearest(name: str, declared: Iterable[Setting]) -> Iterator[str]:
    """Yield the declared name that is most like `name`, if one is like it."""
    yield from difflib.get_close_matches(
        name, [each.name for each in declared], n=1, cutoff=_SIMILARITY
    )
