"""The states of a classic group."""

from enum import StrEnum


class ClassicState(StrEnum):
    """The values are the words that ListGroups and DescribeGroups answer."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"
