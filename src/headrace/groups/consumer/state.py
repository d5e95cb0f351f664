"""The states of a KIP-848 group."""

from enum import StrEnum


class ConsumerState(StrEnum):
    """The values are the words that ListGroups and ConsumerGroupDescribe answer."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
    DEAD = "Dead"
