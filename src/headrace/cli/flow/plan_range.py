"""`--from` and `--to`: a range of offsets of every topic that a plan reads."""

import copy
import json
from collections.abc import Mapping
from dataclasses import replace

from headrace.cli.record.offset_spec import OffsetSpec, resolve
from headrace.client.error import ClientError
from headrace.client.network.pool import ConnectionPool
from headrace.client.settings import ClientSettings
from headrace.flow.plan.client_option import client_of
from headrace.flow.plan.plan import Kind, Plan
from headrace.flow.storm.spout import TopicSpout
from headrace.model.error import ConfigError
from headrace.model.ids import TopicPartition


def bounded(plan: Plan, first: OffsetSpec | None, past: OffsetSpec | None) -> Plan:
    """Return the plan over the records from `first` up to `past`, which is left out, in each
    partition.

    Raises:
        ConfigError: a spout reads no topic, and so has no offsets.
        ClientError: a topic does not exist, or no broker answers.
    """
    if first is None and past is None:
        return plan
    components = dict(plan.components)
    for component in plan.components.values():
        if component.kind is not Kind.SPOUT:
            continue
        if not isinstance(component.work, TopicSpout):
            raise ConfigError(
                f"the spout {component.name} reads no topic: leave out --from and --to"
            )
        components[component.name] = replace(component, work=_between(component.work, first, past))
    return replace(plan, components=components)


def _between(spout: TopicSpout, first: OffsetSpec | None, past: OffsetSpec | None) -> TopicSpout:
    changed = copy.copy(spout)
    settings = ClientSettings.of(client_of(spout.options, spout.brokers))
    with ConnectionPool(settings) as pool:
        partitions = _partitions(pool, spout.topics)
        if first is not None:
            changed.starting = _offsets(resolve(pool, first, partitions))
        if past is not None:
            changed.ending = _offsets(resolve(pool, past, partitions))
    return changed


def _partitions(pool: ConnectionPool, topics: tuple[str, ...]) -> list[TopicPartition]:
    metadata = pool.metadata(list(topics))
    partitions = []
    for name in topics:
        topic = metadata.topics.get(name)
        if topic is None or topic.error is not None:
            raise ConfigError(f"there is no topic {name} to read from")
        partitions += [topic.partition(index) for index in topic.partitions]
    return partitions


def _offsets(resolved: Mapping[TopicPartition, int | ClientError]) -> str:
    """Return offsets as JSON, as the source's option startingOffsets has them."""
    by_topic: dict[str, dict[str, int]] = {}
    for partition, offset in resolved.items():
        if isinstance(offset, ClientError):
            raise offset
        by_topic.setdefault(partition.topic, {})[str(partition.partition)] = offset
    return json.dumps(by_topic)
