"""The configuration that makes a topic a mirror, and the sign that it is one no more."""

from typing import Final

LINK: Final = "headrace.mirror.link"
STATE: Final = "headrace.mirror.state"
SOURCE_TOPIC: Final = "headrace.mirror.topic"
SOURCE_TOPIC_ID: Final = "headrace.mirror.topic.id"

COPIED: Final = "copied"
PAUSED: Final = "paused"
STOPPED: Final = "stopped"

FENCE_ID: Final = 2**63 - 1
"""The producer id of the marker that says that a leader's fence is complete."""
