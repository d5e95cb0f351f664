"""The consumer group that a flow commits its progress to, so that every tool shows its lag.

Spark does not pass the query's name to a source; the flow does. The prefix keeps the group apart
from those of programs with the flow's name: the flow must not move their offsets.
"""

from typing import Final

PREFIX: Final = "headrace-flow-"
# Kafka's limit is 32 KiB; anything near it is a mistake.
_LONGEST: Final = 255


def group_of(flow: str) -> str:
    """Return the group of a flow."""
    return f"{PREFIX}{flow}"[:_LONGEST]


def flow_of(group: str) -> str | None:
    """Return the flow whose group this is; None if it is no flow's."""
    return group.removeprefix(PREFIX) if group.startswith(PREFIX) else None
