"""Hides fields of records before anything leaves the console, in every view.

A mask is `FIELD`, `TOPIC:FIELD` or `TOPIC:*`. A field is a name at any depth of a JSON value, or a
path from its top such as `user.email`. A topic may end in `*`.

Rule 1: search, export, tail and every view get the masked record, so that a search cannot find a
        hidden value.
Rule 2: a value of a topic with masked fields that has no fields of its own is hidden as a whole,
        because the field could be anywhere in it: one that is not JSON and cannot be decoded, and
        one that was decoded to a bare text or number.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Final

from headrace.model.error import ConfigError

HIDDEN: Final = "•••"
_MOST_DEPTH: Final = 100


@dataclass(frozen=True, slots=True)
class Mask:
    """Hides fields in the records of one topic."""

    everything: bool
    names: frozenset[str]
    paths: frozenset[tuple[str, ...]]

    @property
    def applies(self) -> bool:
        return self.everything or bool(self.names or self.paths)

    def hide(self, value: Any) -> Any:
        """Return a copy of a JSON value in which masked fields are replaced."""
        return HIDDEN if self.everything else self._hide(value, (), 0)

    def hides_header(self, name: str) -> bool:
        return self.everything or name in self.names

    def _hide(self, value: Any, path: tuple[str, ...], depth: int) -> Any:
        if depth > _MOST_DEPTH:
            return HIDDEN
        if isinstance(value, list):
            return [self._hide(each, path, depth + 1) for each in value]
        if not isinstance(value, dict):
            return value
        return {
            key: HIDDEN
            if key in self.names or (*path, key) in self.paths
            else self._hide(each, (*path, key), depth + 1)
            for key, each in value.items()
        }


class Masks:
    """All masks of a console.

    >>> Masks(["email", "payments:card.number"]).of("payments").hide({"card": {"number": 1}})
    {'card': {'number': '•••'}}
    """

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self._masks: list[tuple[str, str]] = []
        for text in texts:
            topic, colon, field = text.rpartition(":")
            if not field or (colon and not topic):
                raise ConfigError(
                    f"--mask {text} hides nothing: write FIELD, TOPIC:FIELD or TOPIC:*"
                )
            self._masks.append((topic or "*", field))

    def of(self, topic: str) -> Mask:
        fields = {field for pattern, field in self._masks if fnmatchcase(topic, pattern)}
        everything = "*" in fields
        names = frozenset(each for each in fields if "." not in each)
        paths = frozenset(tuple(each.split(".")) for each in fields if "." in each)
        return Mask(everything, names, paths)
