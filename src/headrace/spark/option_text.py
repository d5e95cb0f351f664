"""Reads the options that a user wrote, with errors that name the option and the fix.

Rule 1: names are case-insensitive, as all of Spark's options are; errors spell them as documented.
Rule 2: an unknown name is an error that suggests the nearest one. Spark's Kafka connector ignores
it, and its users then wonder why `startingOffset` does nothing.
"""

import difflib
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeVar

from headrace.model.error import ConfigError

T = TypeVar("T")

KAFKA_PREFIX: Final = "kafka."

# Spark itself may add these to the options of a source or a sink.
_SPARKS_OWN: Final = frozenset({"path", "checkpointlocation", "queryname"})
_WHOLE_NUMBER: Final = re.compile(r"[+-]?\d{1,20}")
_DURATION: Final = re.compile(r"(\d{1,15})\s*([a-z]*)")
_MILLISECONDS: Final = {
    "": 1,
    "ms": 1,
    "s": 1_000,
    "m": 60_000,
    "min": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
}


class OptionText:
    """The options of one source or sink.

    >>> options = OptionText({"SubScribe": "clicks", "minpartitions": "4"})
    >>> options.get("subscribe"), options.number("minPartitions", 1, 100)
    ('clicks', 4)
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        self._texts = {name.lower(): text for name, text in options.items()}

    def __contains__(self, name: str) -> bool:
        return name.lower() in self._texts

    def get(self, name: str) -> str | None:
        """Return an option without surrounding blanks, or None."""
        text = self._texts.get(name.lower())
        return None if text is None else text.strip()

    def kafka(self) -> dict[str, str]:
        """Return every `kafka.*` option, under Kafka's own name."""
        return {
            name.removeprefix(KAFKA_PREFIX): text
            for name, text in self._texts.items()
            if name.startswith(KAFKA_PREFIX)
        }

    def reject_unknown(self, known: Iterable[str], *, format_name: str = "headrace") -> None:
        """Check that every option is known. The format `headrace` has all of `kafka.*` too.

        Raises:
            ConfigError: names the first unknown option and the nearest known one.
        """
        spelled = {name.lower(): name for name in known}
        kafka = format_name == "headrace"
        for name in self._texts:
            if name in spelled or name in _SPARKS_OWN or (kafka and name.startswith(KAFKA_PREFIX)):
                continue
            # "bootstrap.servers" is what people write who forget the prefix.
            also = {"kafka.bootstrap.servers": "kafka.bootstrap.servers"} if kafka else {}
            candidates = spelled | also
            near = difflib.get_close_matches(name, candidates, n=1)
            hint = f"did you mean {candidates[near[0]]}?" if near else "it has " + _list(spelled)
            raise ConfigError(f"the format {format_name} has no option {name}; {hint}")

    def boolean(self, name: str, default: bool) -> bool:
        """Return an option that is `true` or `false`."""
        text = self.get(name)
        if text is None:
            return default
        if text.lower() not in ("true", "false"):
            raise wrong(name, text, "write true or false")
        return text.lower() == "true"

    def number(self, name: str, lowest: int, highest: int) -> int | None:
        """Return an option that is a whole number within bounds, or None."""
        text = self.get(name)
        if text is None:
            return None
        if not _WHOLE_NUMBER.fullmatch(text):
            raise wrong(name, text, "write a whole number")
        if not lowest <= int(text) <= highest:
            raise wrong(name, text, f"it must lie between {lowest} and {highest}")
        return int(text)

    def choice(self, name: str, default: str, allowed: tuple[str, ...]) -> str:
        """Return one of the allowed texts, in the spelling of `allowed`."""
        text = self.get(name)
        if text is None:
            return default
        for each in allowed:
            if text.lower() == each.lower():
                return each
        raise wrong(name, text, "write one of " + ", ".join(allowed))

    def duration_ms(self, name: str, default_ms: int) -> int:
        """Return a duration as Spark writes it: `15m`, `30s`; a bare number is milliseconds."""
        text = self.get(name)
        if text is None:
            return default_ms
        found = _DURATION.fullmatch(text.lower())
        if found is None or found[2] not in _MILLISECONDS:
            raise wrong(name, text, "write a number and ms, s, m, h or d, as in 15m")
        return int(found[1]) * _MILLISECONDS[found[2]]

    def parsed(self, name: str, parse: Callable[[str, str], T]) -> T | None:
        """Return the result of `parse(name, text)`, or None without the option."""
        text = self.get(name)
        return None if text is None else parse(name, text)


def wrong(name: str, text: str, instead: str) -> ConfigError:
    """Return the error for a value that an option cannot have."""
    return ConfigError(f"option {name} cannot be {text!r}: {instead}")


def _list(spelled: Mapping[str, str]) -> str:
    return ", ".join(sorted(spelled.values()))
