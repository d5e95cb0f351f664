"""Keys of Apache Kafka's broker that mean nothing here, and why.

A `server.properties` that came with Kafka must run as it is. These keys are accepted with a
warning; any other unknown key is an error that names the nearest known one.
"""

from collections.abc import Mapping

_THREADS = "one event loop serves all connections"
_CONTROLLER = "the controller is elected through ZooKeeper; one broker alone is its own"
_BUFFERS = "the kernel sizes socket buffers by itself"

WITHOUT_MEANING: Mapping[str, str] = {
    "background.threads": _THREADS,
    "controller.listener.names": _CONTROLLER,
    "controller.quorum.bootstrap.servers": _CONTROLLER,
    "controller.quorum.voters": _CONTROLLER,
    "log.cleaner.threads": "one thread compacts",
    "num.io.threads": _THREADS,
    "num.network.threads": _THREADS,
    "num.replica.fetchers": "a broker has one fetcher per leader that it follows",
    "process.roles": _CONTROLLER,
    "share.coordinator.state.topic.min.isr": "share groups are not served",
    "share.coordinator.state.topic.replication.factor": "share groups are not served",
    "socket.receive.buffer.bytes": _BUFFERS,
    "socket.send.buffer.bytes": _BUFFERS,
    "transaction.state.log.min.isr": "min.insync.replicas of the topic applies",
}


def split_meaningless(texts: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Return the texts without the keys that mean nothing, and those keys with the reason.

    >>> split_meaningless({"num.io.threads": "8", "num.partitions": "3"})
    ({'num.partitions': '3'}, {'num.io.threads': 'one event loop serves all connections'})
    """
    used = {name: text for name, text in texts.items() if name not in WITHOUT_MEANING}
    ignored = {name: WITHOUT_MEANING[name] for name in texts if name in WITHOUT_MEANING}
    return used, ignored
