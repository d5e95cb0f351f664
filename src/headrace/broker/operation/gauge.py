"""The gauges of a running broker, read when /metrics is scraped."""

from headrace.broker.broker import Broker
from headrace.broker.metric import Reading
from headrace.broker.network.acceptor import Acceptor


def gauges(broker: Broker, acceptor: Acceptor) -> list[Reading]:
    return [
        Reading("headrace_connections", "Open connections.", lambda: len(acceptor.connections)),
        Reading(
            "headrace_connections_accepted",
            "Connections taken since the start.",
            lambda: acceptor.accepted,
            counts_up=True,
        ),
        Reading(
            "headrace_connections_refused",
            "Connections closed as they came, because there were too many.",
            lambda: acceptor.refused,
            counts_up=True,
        ),
        Reading("headrace_topics", "Topics.", lambda: len(broker.topics)),
        Reading(
            "headrace_partitions",
            "Partitions this broker leads.",
            lambda: sum(1 for _ in broker.topics.partitions()),
        ),
        Reading(
            "headrace_log_size_bytes",
            "Bytes in the segments of all partitions.",
            lambda: sum(partition.log.size_bytes for partition in broker.topics.partitions()),
        ),
        Reading(
            "headrace_log_directories_offline",
            "Log directories that were taken offline by an error.",
            lambda: len(broker.storage.offline),
        ),
        Reading(
            "headrace_fetch_sessions",
            "Incremental fetch sessions.",
            lambda: len(broker.fetch_sessions),
        ),
        Reading(
            "headrace_fetch_session_partitions",
            "Partitions of all incremental fetch sessions together.",
            lambda: broker.fetch_sessions.partition_count,
        ),
    ]
