"""Which topics or groups a flow copies: lists of regular expressions."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import re2

from headrace.model.error import ConfigError

# What one list of expressions may cost; thousands of names are matched again and again.
_MAX_MEMORY_BYTES: Final = 8 << 20


@dataclass(frozen=True, slots=True)
class NameFilter:
    """Names that match one of some expressions, and none of others. Immutable.

    >>> NameFilter.of("clicks.*, orders", "clicks-old").matches("clicks-eu")
    True
    """

    included: "ExpressionList"
    excluded: "ExpressionList"

    @classmethod
    def of(cls, included: str, excluded: str = "") -> "NameFilter":
        """Parse two lists as the file has them.

        Raises:
            ConfigError: an expression cannot be compiled.
        """
        return cls(ExpressionList(included), ExpressionList(excluded))

    def matches(self, name: str) -> bool:
        return self.included.matches(name) and not self.excluded.matches(name)

    def matching(self, names: Iterable[str]) -> list[str]:
        """Return the names that match, sorted."""
        return sorted(filter(self.matches, names))


class ExpressionList:
    """Expressions with commas between them; a name matches one from beginning to end."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._expressions: re2.Set | None = None
        listed = [each.strip() for each in text.split(",") if each.strip()]
        if not listed:
            return
        options = re2.Options()
        options.log_errors = False
        options.max_mem = _MAX_MEMORY_BYTES
        expressions = re2.Set.FullMatchSet(options)
        for each in listed:
            try:
                expressions.Add(each)
            except re2.error as error:
                raise ConfigError(
                    f"{each!r} is no regular expression that can be used here (RE2): {error}"
                ) from None
        try:
            expressions.Compile()
        except re2.error:
            raise ConfigError(f"the expressions {text!r} need too much memory") from None
        self._expressions = expressions

    def matches(self, name: str) -> bool:
        """Return whether one of the expressions matches the whole name."""
        return self._expressions is not None and bool(self._expressions.Match(name))

    def __repr__(self) -> str:
        return f"ExpressionList({self.text!r})"
