"""The configuration that makes a topic a mirror."""

from typing import Final

LINK: Final = "headrace.mirror.link"
STATE: Final = "headrace.mirror.state"
SOURCE_TOPIC: Final = "headrace.mirror.topic"
SOURCE_TOPIC_ID: Final = "headrace.mirror.topic.id"
