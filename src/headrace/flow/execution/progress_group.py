"""Under which group a flow commits how far it has read, so that its lag has its name in every tool.

Spark does not tell a source which query it serves; the flow does. The prefix keeps the name apart
from groups of programs that are called as the flow is: the flow must not move their offsets.
"""

from typing import Final

PREFIX: Final = "headrace-flow-"
# Kafka's limit is 32 KiB; anything near it is a mistake.
_LONGEST: Final = 255


def group_of(flow: str) -> str:
    return f"{PREFIX}{flow}"[:_LONGEST]


def flow_of(group: str) -> str | None:
    """The flow whose group this is; None: it is no flow's."""
    return group.removeprefix(PREFIX) if group.startswith(PREFIX) else None
