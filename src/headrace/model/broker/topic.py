"""Creating and deleting topics."""

from headrace.model.broker.key import broker_key
from headrace.model.config import ConfigType

TOPIC_KEYS = [
    broker_key(
        "auto.create.topics.enable",
        ConfigType.BOOLEAN,
        True,
        "Create a topic when a client asks for its metadata and allows it.",
    ),
    broker_key("delete.topic.enable", ConfigType.BOOLEAN, True, "Let clients delete topics."),
    broker_key(
        "num.partitions",
        ConfigType.INT,
        1,
        "Partitions of a topic that was created without a number.",
        minimum=1,
        dynamic=True,
    ),
    broker_key(
        "default.replication.factor",
        ConfigType.INT,
        1,
        "Replicas of a topic that was created without a number.",
        minimum=1,
        dynamic=True,
    ),
]
