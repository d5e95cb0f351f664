"""Whether both clusters allow what a flow needs that the target's brokers copy.

Nothing is changed: the link and the topics are sent with `validate_only`. Whether the target's
brokers can reach the source is only seen when they do.
"""

from collections.abc import Iterator

from headrace.client.admin.admin import Admin, ConfigChange, NewTopic
from headrace.client.error import ClientError
from headrace.client.group.group_admin import GroupAdmin
from headrace.client.network.pool import ConnectionPool
from headrace.client.settings import ClientSettings
from headrace.mirror.config.flow_settings import FlowSettings
from headrace.mirror.config.mirror_file import MirrorFile
from headrace.mirror.link.acl_sync import read_acls
from headrace.mirror.link.link_config import link_configs
from headrace.mirror.link.link_status import mirror_configs
from headrace.mirror.link.mirror_topic import LINK
from headrace.mirror.process.check import CheckResult, check_topics, creatable, tried
from headrace.mirror.process.topic_plan import TopicPlan
from headrace.model.config_code import ConfigOperation, ConfigResourceType
from headrace.wire.error_code import ErrorCode


def check_link(
    flow: FlowSettings, file: MirrorFile, source: ConnectionPool, target: ConnectionPool
) -> Iterator[CheckResult]:
    """Try what the flow needs, one after the other."""
    plan = TopicPlan.of(flow, source.metadata(), file.flows)
    yield from check_topics(flow, plan, source)
    if flow.seconds("sync.group.offsets") is not None:
        yield tried(flow.source, f"{flow.name}: Describe on groups", GroupAdmin(source).list_groups)
    if flow.seconds("sync.topic.acls") is not None:
        for cluster, pool in ((flow.source, source), (flow.target, target)):
            yield tried(
                cluster,
                f"{flow.name}: Describe on the cluster, for sync.topic.acls.enabled",
                lambda pool=pool: read_acls(pool),  # type: ignore[misc]
            )
    linked = tried(
        flow.target,
        f"{flow.name}: AlterConfigs on the cluster, for the link {flow.source}",
        lambda: _check_link(flow, file.clients[flow.source], target),
    )
    yield linked
    if linked.problem is not None:
        return
    new = [
        NewTopic(each.remote_name, each.partitions, flow.replication_factor, {LINK: flow.source})
        for each in plan.topics
    ]
    yield tried(flow.target, f"{flow.name}: Create the topics", lambda: creatable(target, new))
    yield from _check_names(flow, plan, target)


def _check_link(flow: FlowSettings, source: ClientSettings, target: ConnectionPool) -> None:
    changes = [
        ConfigChange(ConfigOperation.SET, key, text) for key, text in link_configs(source).items()
    ]
    outcomes = Admin(target).alter_configs(
        ConfigResourceType.MIRROR_LINK, {flow.source: changes}, validate_only=True
    )
    error = outcomes[flow.source]
    if error is None:
        return
    if error.code is ErrorCode.invalid_request:
        raise ClientError(
            f"{flow.target} has no mirror links, so it is no Headrace cluster: take "
            f"{flow.name}.headrace.copied.by out of the file"
        )
    raise error


def _check_names(
    flow: FlowSettings, plan: TopicPlan, target: ConnectionPool
) -> Iterator[CheckResult]:
    """Name the target's topics that are in the way."""
    try:
        found = mirror_configs(target, [each.remote_name for each in plan.topics])
    except ClientError as error:
        yield CheckResult(
            flow.target, f"{flow.name}: DescribeConfigs on the mirror topics", str(error)
        )
        return
    for name, configs in found.items():
        if configs is not None and configs.get(LINK) != flow.source:
            yield CheckResult(
                flow.target,
                f"{flow.name}: mirror topic {name}",
                "there is a topic of this name that is no mirror, or was promoted: delete it, or "
                "add it to topics.exclude",
            )
