"""The topics that a plan needs, created if they are missing."""

from collections.abc import Mapping

from headrace.client.admin.admin import Admin, NewTopic
from headrace.client.network.pool import ConnectionPool
from headrace.client.settings import ClientSettings
from headrace.flow.error import FlowError
from headrace.flow.plan.client_option import client_of, client_options
from headrace.flow.plan.plan import Kind, Latency, Plan
from headrace.flow.plan.setting import prefixed
from headrace.flow.runtime.stage_run import METRICS_TOPIC
from headrace.flow.storm.spout import TopicSpout
from headrace.spark.source.topic_choice import TopicMissing
from headrace.wire.error_code import ErrorCode


def topics_of(plan: Plan) -> list[str]:
    """Return the topics that a plan reads and writes, as far as they are known before it runs."""
    topics: list[str] = []
    for component in plan.components.values():
        if component.kind is Kind.SPOUT:
            topics += getattr(component.work, "topics", ())
        elif component.kind is Kind.SINK and isinstance(getattr(component.work, "topic", 0), str):
            topics.append(component.work.topic)
    topics += filter(None, [plan.dead_letters, plan.settings.get(METRICS_TOPIC)])
    return list(dict.fromkeys(topics))


def topic_configs(plan: Plan) -> dict[str, Mapping[str, str]]:
    """Return the topic configurations that the sinks of a plan ask for."""
    return {
        each.work.topic: each.work.topic_config
        for each in plan.components.values()
        if each.kind is Kind.SINK and getattr(each.work, "topic_config", None)
    }


def create_missing(plan: Plan, brokers: str) -> list[str]:
    """Create the missing topics with the broker's default partitions, and return their names.

    Raises:
        BrokerError: a topic could not be created.
    """
    configs = topic_configs(plan)
    topics = [NewTopic(each, configs=configs.get(each, {})) for each in topics_of(plan)]
    created = []
    settings = client_options(plan.settings) | client_options(prefixed(plan.settings, "sink."))
    with ConnectionPool(ClientSettings.of(client_of(settings, brokers))) as pool:
        for name, error in Admin(pool).create_topics(topics).items():
            if error is None:
                created.append(name)
            elif error.code is not ErrorCode.topic_already_exists:
                raise error
    return created


def check_inputs(plan: Plan) -> None:
    """Check that the topics of the spouts exist, before a Spark session is started.

    Raises:
        FlowError: a topic is missing.
        ClientError: no broker answers.
    """
    if plan.latency is Latency.REALTIME:
        return  # Spark's own connector reads them, with settings that our client does not have
    for component in plan.components.values():
        if component.kind is Kind.SPOUT and isinstance(component.work, TopicSpout):
            try:
                component.work.check_there()
            except TopicMissing as missing:
                reason = str(missing)
                reason += " " if reason.endswith("?") else "; "
                raise FlowError(
                    f"{plan.name} cannot start: {reason}--create-topics creates missing topics"
                ) from missing
