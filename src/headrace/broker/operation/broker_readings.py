"""Every metric of a broker but its partitions' health: what it is called and where it is read."""

from collections.abc import Mapping
from typing import TypeAlias

from headrace.broker.broker import Broker
from headrace.broker.membership.cluster_member import ClusterMember
from headrace.broker.metric import BrokerMetrics
from headrace.broker.network.acceptor import Acceptor
from headrace.broker.operation.compaction_worker import CompactionWorker
from headrace.broker.operation.loop_watch import LoopWatch
from headrace.telemetry.histogram import Histogram
from headrace.telemetry.reading import Reading
from headrace.wire.api import APIS
from headrace.wire.error_code import error_name

_gauge, _counter, _histogram = Reading.gauge, Reading.counter, Reading.histogram
_Row: TypeAlias = tuple[str, ...]
# From the start on: Prometheus sees no increase in a series that begins with its first failure.
_NO_FAILURES: Mapping[str, float] = {api.name: 0.0 for api in APIS.values()}


def request_readings(metrics: BrokerMetrics) -> list[Reading]:
    return [
        _counter(
            "headrace_requests",
            "Requests received, by API.",
            lambda: _one_label(metrics.requests),
            "api",
        ),
        _counter(
            "headrace_request_failures",
            "Requests that failed through a mistake of ours, by API.",
            lambda: _one_label({**_NO_FAILURES, **metrics.failures}),
            "api",
        ),
        _counter(
            "headrace_request_errors",
            "Error codes in responses, by API.",
            lambda: {
                (api, error_name(code)): float(count)
                for (api, code), count in metrics.errors.items()
            },
            *("api", "error"),
        ),
        _histogram(
            "headrace_request_duration_seconds",
            "From a request's arrival to its answer, by API; a fetch's wait for records included.",
            lambda: {(api,): each for api, each in metrics.times.items()},
            "api",
        ),
        _counter(
            "headrace_request_loop_seconds",
            "The event loop's time in requests, by API.",
            lambda: {(api,): each.loop_seconds for api, each in metrics.times.items()},
            "api",
        ),
    ]


def traffic_readings(metrics: BrokerMetrics) -> list[Reading]:
    """Return the readings of one scrape: topics are gone through once."""
    traffic = metrics.traffic()
    topics = traffic.by_topic.items()
    return [
        _counter(
            "headrace_produced_bytes",
            "Bytes of record batches appended for clients.",
            lambda: traffic.total.bytes_in,
        ),
        _counter(
            "headrace_fetched_bytes",
            "Bytes of record batches sent to clients.",
            lambda: traffic.total.bytes_out,
        ),
        _counter(
            "headrace_produced_records",
            "Records appended for clients.",
            lambda: traffic.total.records_in,
        ),
        _counter(
            "headrace_replicated_bytes",
            "Bytes of record batches copied from leaders.",
            lambda: metrics.replicated_bytes,
        ),
        _counter(
            "headrace_replication_sent_bytes",
            "Bytes of record batches sent to followers.",
            lambda: metrics.replication_sent_bytes,
        ),
        _counter(
            "headrace_topic_bytes_in",
            "Bytes of record batches appended for clients, by topic.",
            lambda: {(name,): each.bytes_in for name, each in topics},
            "topic",
        ),
        _counter(
            "headrace_topic_bytes_out",
            "Bytes of record batches sent to clients, by topic.",
            lambda: {(name,): each.bytes_out for name, each in topics},
            "topic",
        ),
        _counter(
            "headrace_topic_records_in",
            "Records appended for clients, by topic.",
            lambda: {(name,): each.records_in for name, each in topics},
            "topic",
        ),
    ]


def cluster_readings(broker: Broker) -> list[Reading]:
    metrics, membership = broker.metrics, broker.membership
    readings = [
        _gauge("headrace_topics", "Topics.", lambda: len(broker.topics)),
        _gauge("headrace_brokers", "Brokers that are registered.", lambda: len(broker.members)),
        _gauge(
            "headrace_active_controller",
            "1 on the broker that is the controller, 0 on the others.",
            lambda: membership.controller_id == broker.node_id,
        ),
        _counter(
            "headrace_isr_shrinks",
            "In-sync replicas that became fewer, of partitions this broker leads.",
            lambda: metrics.isr_shrinks,
        ),
        _counter(
            "headrace_isr_expands",
            "In-sync replicas that became more, of partitions this broker leads.",
            lambda: metrics.isr_expands,
        ),
        _counter(
            "headrace_leader_elections",
            "Elections that this broker won.",
            lambda: metrics.leader_elections,
        ),
        _counter(
            "headrace_unclean_leader_elections",
            "Elections that this broker won without being in sync: acknowledged records may be "
            "lost.",
            lambda: metrics.unclean_leader_elections,
        ),
    ]
    if isinstance(membership, ClusterMember):
        readings += [
            _gauge(
                "headrace_zookeeper_connected",
                "1 while this broker has a session with ZooKeeper and is registered in it.",
                lambda: membership.joined,
            ),
            _counter(
                "headrace_zookeeper_session_ends",
                "Sessions with ZooKeeper that ended.",
                lambda: membership.session_ends,
            ),
        ]
    return readings


def client_readings(broker: Broker, acceptor: Acceptor) -> list[Reading]:
    quotas, connections = broker.quotas, acceptor.connections
    return [
        _gauge("headrace_connections", "Open connections.", lambda: len(connections)),
        _counter(
            "headrace_connections_accepted",
            "Connections taken since the start.",
            lambda: acceptor.accepted,
        ),
        _counter(
            "headrace_connections_refused",
            "Connections closed as they came, because there were too many.",
            lambda: acceptor.refused,
        ),
        _gauge(
            "headrace_requests_in_progress",
            "Requests that are being served, or wait for records or replicas.",
            lambda: sum(each.owed_answers for each in connections),
        ),
        _gauge(
            "headrace_requests_queued",
            "Requests that wait for earlier ones of their connection, or for a quota.",
            lambda: sum(each.queued_requests for each in connections),
        ),
        _counter(
            "headrace_throttled_requests",
            "Requests whose client had to wait, by quota.",
            lambda: _one_label(quotas.throttled_requests),
            "quota",
        ),
        _counter(
            "headrace_throttle_seconds",
            "How long clients had to wait, by quota.",
            lambda: {(kind,): ms / 1000 for kind, ms in quotas.throttled_ms.items()},
            "quota",
        ),
        _gauge(
            "headrace_fetch_sessions",
            "Incremental fetch sessions.",
            lambda: len(broker.fetch_sessions),
        ),
        _gauge(
            "headrace_fetch_session_partitions",
            "Partitions of all incremental fetch sessions together.",
            lambda: broker.fetch_sessions.partition_count,
        ),
    ]


def loop_readings(watch: LoopWatch) -> list[Reading]:
    return [
        _histogram(
            "headrace_event_loop_lag_seconds",
            "How late the event loop, which serves all requests, runs its timers.",
            lambda: watch.lag,
        ),
        _counter(
            "headrace_event_loop_syncs_total",
            "Syncs of files that the event loop waited for.",
            lambda: watch.syncs,
        ),
    ]


def storage_readings(
    broker: Broker, compaction: CompactionWorker, sync_times: Histogram
) -> list[Reading]:
    return [
        _gauge(
            "headrace_log_directories_offline",
            "Log directories that were taken offline by an error.",
            lambda: len(broker.storage.offline),
        ),
        _histogram(
            "headrace_log_flush_duration_seconds",
            "How long files took to be synced to the disk.",
            lambda: sync_times,
        ),
        _gauge(
            "headrace_compaction_backlog_logs",
            "Logs that were due for compaction when it last looked.",
            lambda: compaction.backlog().logs,
        ),
        _gauge(
            "headrace_compaction_backlog_bytes",
            "Bytes in those logs that were not compacted yet.",
            lambda: compaction.backlog().dirty_bytes,
        ),
        _gauge(
            "headrace_uncleanable_logs",
            "Logs that compaction has given up until the next start.",
            lambda: compaction.backlog().uncleanable,
        ),
    ]


def _one_label(figures: Mapping[str, float]) -> dict[_Row, float]:
    return {(name,): figure for name, figure in figures.items()}
