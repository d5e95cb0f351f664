"""What a user writes to aggregate, where the built-in measures do not do."""

from typing import Any


class CombinerAggregator:
    """A value of each tuple, and how two of them become one: the order must not matter.

    Example:
        class Longest(CombinerAggregator):
            def init(self, word):
                return word

            def combine(self, one, other):
                return max(one, other, key=len)
    """

    def init(self, *values: Any) -> Any:
        """The value of one tuple."""
        raise NotImplementedError

    def combine(self, one: Any, other: Any) -> Any:
        raise NotImplementedError

    def result(self, value: Any) -> Any:
        """What is emitted: a value, or a tuple of the declared fields."""
        return value


class ReducerAggregator:
    """A beginning, and how each tuple changes it."""

    def init(self) -> Any:
        raise NotImplementedError

    def reduce(self, value: Any, *values: Any) -> Any:
        """The new value; what `value` was must not be changed."""
        raise NotImplementedError

    def result(self, value: Any) -> Any:
        return value


class Aggregator:
    """The general one: of a batch, or a group of it, to any number of tuples."""

    def init(self) -> Any:
        raise NotImplementedError

    def aggregate(self, value: Any, *values: Any) -> Any:
        """The new value, which may be the old one, changed."""
        raise NotImplementedError

    def complete(self, value: Any) -> Any:
        """A tuple, a list of them, or None."""
        raise NotImplementedError


AnyAggregator = CombinerAggregator | ReducerAggregator | Aggregator
