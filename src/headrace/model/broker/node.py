"""The broker itself and its data directories."""

from headrace.model.broker.key import broker_key
from headrace.model.config import ConfigType

NO_BROKER_ID = -1

NODE_KEYS = [
    broker_key("node.id", ConfigType.INT, 1, "This broker's number in its cluster.", minimum=0),
    broker_key(
        "broker.id",
        ConfigType.INT,
        NO_BROKER_ID,
        "Kafka's older name of node.id; used when that is not set.",
        minimum=NO_BROKER_ID,
    ),
    broker_key(
        "broker.rack",
        ConfigType.STRING,
        None,
        "Where this broker stands, for placement; in a cluster `up` sets the machine's name.",
    ),
    broker_key(
        "cluster.id", ConfigType.STRING, None, "The cluster's id; one is made when missing."
    ),
    broker_key(
        "log.dirs",
        ConfigType.LIST,
        ("data",),
        "Where the partitions lie: one directory a disk, separated by commas.",
    ),
    broker_key("log.dir", ConfigType.LIST, (), "The same as log.dirs; used when that is not set."),
    broker_key(
        "num.recovery.threads.per.data.dir",
        ConfigType.INT,
        2,
        "Threads that check a directory's logs after a crash; a change counts at the next start.",
        minimum=1,
        dynamic=True,
    ),
    broker_key(
        "headrace.debug.loop.ms",
        ConfigType.INT,
        0,
        "Log the stack of what holds the event loop for longer than this; 0 logs none.",
        minimum=0,
    ),
]
