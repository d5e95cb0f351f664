"""Base classes of a user's aggregators, for totals that the built-in measures do not have."""

from typing import Any

from headrace.flow.error import FlowError


class CombinerAggregator:
    """Makes a value of each tuple and combines two values into one. The order must not matter.

    Example:
        class Longest(CombinerAggregator):
            def init(self, word):
                return word

            def combine(self, one, other):
                return max(one, other, key=len)
    """

    def init(self, *values: Any) -> Any:
        """Return the value of one tuple."""
        raise NotImplementedError

    def combine(self, one: Any, other: Any) -> Any:
        """Return two values as one."""
        raise NotImplementedError

    def result(self, value: Any) -> Any:
        """Return what is emitted: a value, or a tuple of the declared fields."""
        return value


class ReducerAggregator:
    """Begins with a value that each tuple changes."""

    def init(self) -> Any:
        """Return the value before the first tuple."""
        raise NotImplementedError

    def reduce(self, value: Any, *values: Any) -> Any:
        """Return the new value; `value` itself must not be changed."""
        raise NotImplementedError

    def result(self, value: Any) -> Any:
        """Return what is emitted: a value, or a tuple of the declared fields."""
        return value


class Aggregator:
    """Turns a batch, or a group of it, into any number of tuples."""

    def init(self) -> Any:
        """Return the value before the first tuple."""
        raise NotImplementedError

    def aggregate(self, value: Any, *values: Any) -> Any:
        """Return the new value, which may be the old one, changed."""
        raise NotImplementedError

    def complete(self, value: Any) -> Any:
        """Return a tuple, a list of tuples, or None."""
        raise NotImplementedError


AnyAggregator = CombinerAggregator | ReducerAggregator | Aggregator


def check_can_persist(aggregator: AnyAggregator | None) -> None:
    """Refuse an aggregator whose result does not add up over batches.

    Raises:
        FlowError: it is a general `Aggregator`.
    """
    if isinstance(aggregator, Aggregator):
        raise FlowError(
            f"{type(aggregator).__name__} is a general Aggregator, which sees a batch at a time: a"
            " state needs a CombinerAggregator or a ReducerAggregator"
        )
