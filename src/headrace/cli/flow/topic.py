"""The topics that a plan needs, made if they are missing."""

from collections.abc import Mapping

from headrace.client.admin.admin import Admin, NewTopic
from headrace.client.network.pool import ConnectionPool
from headrace.client.settings import ClientSettings
from headrace.flow.error import FlowError
from headrace.flow.plan.plan import Kind, Latency, Plan
from headrace.flow.runtime.stage_run import METRICS_TOPIC
from headrace.flow.storm.spout import TopicSpout
from headrace.spark.source.topic_choice import TopicMissing
from headrace.wire.error_code import ErrorCode


def topics_of(plan: Plan) -> list[str]:
    """What it reads and writes, as far as that is known before it runs."""
    found: list[str] = []
    for component in plan.components.values():
        if component.kind is Kind.SPOUT:
            found += getattr(component.work, "topics", ())
        elif component.kind is Kind.SINK and isinstance(getattr(component.work, "topic", 0), str):
            found.append(component.work.topic)
    found += filter(None, [plan.dead_letters, plan.settings.get(METRICS_TOPIC)])
    return list(dict.fromkeys(found))


def topic_configs(plan: Plan) -> dict[str, Mapping[str, str]]:
    """How a sink wants its topic to be, if it does."""
    return {
        each.work.topic: each.work.topic_config
        for each in plan.components.values()
        if each.kind is Kind.SINK and getattr(each.work, "topic_config", None)
    }


def create_missing(plan: Plan, brokers: str) -> list[str]:
    """Those that were made, with as many partitions as the broker says.

    Raises:
        BrokerError: one could not be made.
    """
    configs = topic_configs(plan)
    wanted = [NewTopic(each, configs=configs.get(each, {})) for each in topics_of(plan)]
    made = []
    with ConnectionPool(ClientSettings.of({"bootstrap.servers": brokers})) as pool:
        for name, error in Admin(pool).create_topics(wanted).items():
            if error is None:
                made.append(name)
            elif error.code is not ErrorCode.topic_already_exists:
                raise error
    return made


def check_inputs(plan: Plan) -> None:
    """That there is what its spouts read, before a session is started for it.

    Raises:
        FlowError: a topic is missing.
        ClientError: the brokers cannot be asked.
    """
    if plan.latency is Latency.REALTIME:
        return  # Spark's own connector reads there, with settings that mean nothing to us
    for component in plan.components.values():
        if component.kind is Kind.SPOUT and isinstance(component.work, TopicSpout):
            try:
                component.work.check_there()
            except TopicMissing as missing:
                told = str(missing)
                told += " " if told.endswith("?") else "; "
                raise FlowError(
                    f"{plan.name} cannot start: {told}--create-topics makes what is missing"
                ) from missing
