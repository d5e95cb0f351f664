"""Numbers for JSON values: equal values, in whatever order their keys are, have the same."""

from typing import Any


class ValueShapes:
    """Gives each value a number, bottom up: a value inside several others is looked at once."""

    def __init__(self) -> None:
        self._numbers: dict[Any, int] = {}
        self._known: dict[int, int] = {}

    def of(self, value: Any) -> int:
        """Return the number of a value that stays alive as long as this object."""
        if not isinstance(value, dict | list):
            return self._numbers.setdefault((type(value), value), len(self._numbers))
        known = self._known.get(id(value))
        if known is None:
            key: tuple[Any, ...]
            if isinstance(value, dict):
                key = ("{", *((name, self.of(value[name])) for name in sorted(value)))
            else:
                key = ("[", *map(self.of, value))
            known = self._known[id(value)] = self._numbers.setdefault(key, len(self._numbers))
        return known
