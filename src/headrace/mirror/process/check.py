"""Whether the clusters of a file can be reached and allow what their flows need.

Nothing is changed: topics are created with `validate_only`, and a transactional id is only looked
up, for to take it over would stop a mirror that runs.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from headrace.client.admin.admin import Admin, NewTopic
from headrace.client.error import BrokerError, ClientError
from headrace.client.group.group_admin import GroupAdmin
from headrace.client.network.pool import ConnectionPool, CoordinatorType
from headrace.client.read.batch_reader import BatchReader
from headrace.mirror.config.flow_settings import FlowSettings
from headrace.mirror.config.mirror_file import MirrorFile
from headrace.mirror.config.replication_policy import HEARTBEATS
from headrace.mirror.process.position import position_group, read_positions
from headrace.mirror.process.topic_plan import TopicPlan
from headrace.model.config_code import ConfigResourceType
from headrace.model.error import ConfigError
from headrace.model.ids import TopicPartition
from headrace.wire.error_code import ErrorCode

_HARMLESS = frozenset({ErrorCode.topic_already_exists})


@dataclass(frozen=True, slots=True)
class CheckResult:
    """One thing that was tried.

    Attributes:
        problem: why it does not work and what is missing; None if it works.
    """

    cluster: str
    what: str
    problem: str | None = None


CheckFlow = Callable[
    [FlowSettings, MirrorFile, ConnectionPool, ConnectionPool], Iterator[CheckResult]
]
"""Tries what one flow needs at its source and its target."""


def check(file: MirrorFile, check_link: CheckFlow) -> Iterator[CheckResult]:
    """Try everything that the flows need, one after the other.

    Args:
        check_link: for the flows that the target's brokers copy.
    """
    pools = {alias: ConnectionPool(settings) for alias, settings in file.clients.items()}
    try:
        reached = set()
        for alias, pool in pools.items():
            result = tried(alias, "connect and log in", lambda pool=pool: pool.metadata(()))  # type: ignore[misc]
            yield result
            if result.problem is None:
                reached.add(alias)
        for flow in file.flows:
            if {flow.source, flow.target} <= reached:
                check_flow = check_link if flow.copied_by_brokers else _check_flow
                yield from check_flow(flow, file, pools[flow.source], pools[flow.target])
    finally:
        for pool in pools.values():
            pool.close()


def _check_flow(
    flow: FlowSettings, file: MirrorFile, source: ConnectionPool, target: ConnectionPool
) -> Iterator[CheckResult]:
    plan = TopicPlan.of(flow, source.metadata(), file.flows)
    yield from check_topics(flow, plan, source)
    if flow.seconds("emit.checkpoints") is not None:
        yield tried(flow.source, f"{flow.name}: Describe on groups", GroupAdmin(source).list_groups)
    if flow.values["emit.offset-syncs.enabled"] and flow.syncs_at_source:
        name = flow.policy.offset_syncs_topic(flow.target)
        yield tried(
            flow.source,
            f"{flow.name}: Create topic {name}",
            lambda: creatable(source, [NewTopic(name, 1)]),
        )
    yield from _check_target(flow, plan, target)


def check_topics(
    flow: FlowSettings, plan: TopicPlan, source: ConnectionPool
) -> Iterator[CheckResult]:
    """Try to read the topics of a plan and their configurations."""
    for name in plan.loops:
        yield CheckResult(
            flow.source,
            f"{flow.name}: topic {name}",
            "it is copied both ways under one name and would go round: take it out of one flow",
        )
    for topic in plan.topics:
        yield tried(
            flow.source,
            f"{flow.name}: Read on topic {topic.name}",
            lambda name=topic.name: _read(source, name),  # type: ignore[misc]
        )
    if plan.topics:
        names = [each.name for each in plan.topics]
        yield tried(
            flow.source,
            f"{flow.name}: DescribeConfigs on the topics",
            lambda: _raise_first(
                Admin(source).describe_configs(ConfigResourceType.TOPIC, names).values()
            ),
        )


def _check_target(
    flow: FlowSettings, plan: TopicPlan, target: ConnectionPool
) -> Iterator[CheckResult]:
    group = position_group(flow.name)
    new = [
        NewTopic(each.remote_name, each.partitions, flow.replication_factor) for each in plan.topics
    ]
    new.append(NewTopic(HEARTBEATS, 1, flow.replication_factor))
    yield tried(flow.target, f"{flow.name}: Create the topics", lambda: creatable(target, new))
    yield tried(
        flow.target,
        f"{flow.name}: Read on group {group}",
        lambda: read_positions(target, flow.name, stable=False),
    )
    yield tried(
        flow.target,
        f"{flow.name}: Write on transactional id {group}",
        lambda: target.on_coordinator(
            group, lambda _: None, lambda _: (), CoordinatorType.TRANSACTION
        ),
    )


def tried(cluster: str, what: str, attempt: Callable[[], object]) -> CheckResult:
    """Return what became of an attempt."""
    try:
        attempt()
    except (ClientError, ConfigError) as error:
        return CheckResult(cluster, what, str(error))
    return CheckResult(cluster, what)


def _read(pool: ConnectionPool, topic: str) -> None:
    """Fetch a little of a topic."""
    reader = BatchReader(pool, {TopicPartition(topic, 0): 0}, partition_max_bytes=1)
    for fetched in reader.poll(max_wait_ms=0):
        if fetched.error is not None and fetched.error.code is not ErrorCode.offset_out_of_range:
            raise fetched.error


def creatable(pool: ConnectionPool, topics: list[NewTopic]) -> None:
    """Ask a cluster whether it would create topics; those that are there do no harm.

    Raises:
        BrokerError: it would not.
    """
    outcomes = Admin(pool).create_topics(topics, validate_only=True)
    _raise_first(
        BrokerError(error.code, f"{name}: {error}")
        for name, error in outcomes.items()
        if error is not None and error.code not in _HARMLESS
    )


def _raise_first(outcomes: object) -> None:
    for each in outcomes:  # type: ignore[attr-defined]
        if isinstance(each, BrokerError):
            raise each
