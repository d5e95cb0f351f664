"""CreateTopics, DeleteTopics and CreatePartitions: requests in, changes or rejections out."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from headrace.cluster.entity_size import configs_problem, topic_problem
from headrace.cluster.placement import place
from headrace.cluster.rejection import ClusterError, Rejection
from headrace.cluster.state import Change, ClusterState, Put, Remove, metric_name
from headrace.cluster.topic import PartitionRecord, TopicRecord, random_topic_id
from headrace.model.error import ConfigError
from headrace.model.ids import BrokerId, TopicId, topic_name_problem
from headrace.model.table.table_config import TableConfig
from headrace.model.topic_config import TOPIC_CONFIG, LogConfig

# Kafka's controller takes no more in one request: placing them must not hold up the others.
MAX_PARTITIONS_PER_REQUEST = 10_000
UNSET = -1
_NO_IDS: Mapping[str, TopicId] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicToCreate:
    """One topic of a CreateTopics request. -1 asks for the broker's default (KIP-464).

    `assignments` gives the replicas by partition; partition count and factor are unset then.
    """

    name: str
    partitions: int = UNSET
    replication_factor: int = UNSET
    assignments: Mapping[int, Sequence[BrokerId]] = field(default_factory=dict)
    configs: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDefaults:
    """`num.partitions` and `default.replication.factor`."""

    partitions: int = 1
    replication_factor: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class NewPartitions:
    """One topic of a CreatePartitions request; `assignments` are those of the added partitions."""

    name: str
    total: int
    assignments: Sequence[Sequence[BrokerId]] | None = None


@dataclass(slots=True)
class TopicPlan:
    """What a command decides: changes to write, and per topic its record or a rejection."""

    changes: list[Change] = field(default_factory=list)
    outcomes: dict[str, TopicRecord | Rejection] = field(default_factory=dict)


def create_topics(
    state: ClusterState,
    topics: Sequence[TopicToCreate],
    *,
    defaults: TopicDefaults,
    new_id: Callable[[], TopicId] = random_topic_id,
) -> TopicPlan:
    """Decide each topic on its own; topics of one request also see those before them."""
    plan = TopicPlan()
    times = Counter(topic.name for topic in topics)
    taken: dict[str, str] = {}
    budget = MAX_PARTITIONS_PER_REQUEST
    for number, topic in enumerate(topics):
        rejection = _name_problem(state, topic.name, times[topic.name], taken)
        outcome = rejection or _create(
            state, topic, defaults, new_id, budget, start=len(state.topics) + number
        )
        plan.outcomes[topic.name] = outcome
        if isinstance(outcome, TopicRecord):
            plan.changes.append(Put(outcome))
            taken[metric_name(topic.name)] = topic.name
            budget -= len(outcome.partitions)
    return plan


def _name_problem(
    state: ClusterState, name: str, times: int, taken: Mapping[str, str]
) -> Rejection | None:
    if times > 1:
        return Rejection(
            ClusterError.INVALID_REQUEST, f"topic {name!r} stands {times} times in this request"
        )
    problem = topic_name_problem(name)
    if problem is not None:
        return Rejection(ClusterError.INVALID_TOPIC_EXCEPTION, problem)
    if name in state.topics:
        return Rejection(ClusterError.TOPIC_ALREADY_EXISTS, f"topic {name!r} exists already")
    other = state.colliding_topic(name) or taken.get(metric_name(name))
    if other is not None:
        return Rejection(
            ClusterError.INVALID_TOPIC_EXCEPTION,
            f"topic {name!r} collides with {other!r}: '.' and '_' are the same in metric names",
        )
    return None


def _create(
    state: ClusterState,
    request: TopicToCreate,
    defaults: TopicDefaults,
    new_id: Callable[[], TopicId],
    budget: int,
    start: int,
) -> TopicRecord | Rejection:
    configs = _checked_configs(request.configs)
    if isinstance(configs, Rejection):
        return configs
    if request.assignments:
        placed = _manual(state, request)
    else:
        placed = _automatic(state, request, defaults, budget, start)
    if isinstance(placed, Rejection):
        return placed
    if len(placed) > budget:
        return _too_many(len(placed), final=True)
    topic = TopicRecord(
        name=request.name,
        topic_id=new_id(),
        partitions=tuple(PartitionRecord.on(replicas) for replicas in placed),
        configs=configs,
    )
    return topic_problem(topic) or topic


def _checked_configs(configs: Mapping[str, str | None]) -> dict[str, str] | Rejection:
    checked: dict[str, str] = {}
    for key, value in configs.items():
        if value is None:
            return Rejection(
                ClusterError.INVALID_CONFIG, f"{key} has no value: write one or leave the key out"
            )
        checked[key] = value
    return configs_problem(checked) or config_problem(checked) or checked


def config_problem(configs: Mapping[str, str]) -> Rejection | None:
    """Return why a topic cannot be configured so, or None when it can."""
    try:
        LogConfig.parse(configs)
        TableConfig.of(TOPIC_CONFIG.parse(configs))
    except ConfigError as error:
        return Rejection(ClusterError.INVALID_CONFIG, str(error))
    return None


def _automatic(
    state: ClusterState, request: TopicToCreate, defaults: TopicDefaults, budget: int, start: int
) -> list[tuple[BrokerId, ...]] | Rejection:
    count = defaults.partitions if request.partitions == UNSET else request.partitions
    factor = (
        defaults.replication_factor
        if request.replication_factor == UNSET
        else request.replication_factor
    )
    if count < 1:
        return Rejection(
            ClusterError.INVALID_PARTITIONS,
            f"a topic has at least one partition, not {count}: -1 takes the broker's default",
        )
    if count > budget:
        return _too_many(count, final=True)
    problem = _factor_problem(state, factor)
    return problem or place(state.racks(), partitions=count, replication_factor=factor, start=start)


def _factor_problem(state: ClusterState, factor: int) -> Rejection | None:
    if factor < 1:
        return Rejection(
            ClusterError.INVALID_REPLICATION_FACTOR,
            f"a partition has at least one replica, not {factor}: -1 takes the broker's default",
        )
    if factor > len(state.brokers):
        return Rejection(
            ClusterError.INVALID_REPLICATION_FACTOR,
            f"replication factor {factor} needs as many brokers, and {len(state.brokers)} "
            "are running",
        )
    return None


def _too_many(count: int, *, final: bool) -> Rejection:
    return Rejection(
        ClusterError.POLICY_VIOLATION,
        f"{count} partitions are too many: one request creates at most "
        f"{MAX_PARTITIONS_PER_REQUEST}",
        final=final,
    )


def _manual(state: ClusterState, request: TopicToCreate) -> list[tuple[BrokerId, ...]] | Rejection:
    if request.partitions != UNSET or request.replication_factor != UNSET:
        return Rejection(
            ClusterError.INVALID_REQUEST,
            f"topic {request.name!r} has assignments: its partition count and replication factor "
            "must both be -1",
        )
    if sorted(request.assignments) != list(range(len(request.assignments))):
        return Rejection(
            ClusterError.INVALID_REPLICA_ASSIGNMENT,
            f"the assigned partitions of {request.name!r} must be 0, 1, 2, ... without a gap",
        )
    placed = [tuple(request.assignments[number]) for number in range(len(request.assignments))]
    return _assignment_problem(state, placed, len(placed[0])) or placed


def _assignment_problem(
    state: ClusterState, placed: Sequence[Sequence[BrokerId]], factor: int
) -> Rejection | None:
    for replicas in placed:
        unknown = [broker for broker in replicas if broker not in state.brokers]
        if not replicas:
            why = "a partition needs at least one replica"
        elif len(set(replicas)) != len(replicas):
            why = f"the replicas {list(replicas)} name a broker twice"
        elif len(replicas) != factor:
            why = f"the replicas {list(replicas)} are not {factor}, as for the other partitions"
        elif unknown:
            why = f"broker {unknown[0]} is not running"
        else:
            continue
        return Rejection(ClusterError.INVALID_REPLICA_ASSIGNMENT, why)
    return None


def delete_topics(
    state: ClusterState, names: Sequence[str], *, ids: Mapping[str, TopicId] = _NO_IDS
) -> TopicPlan:
    """Delete topics.

    Args:
        ids: by name, of those that were asked for by id. A topic with this name and another id is
            not the one that was meant: it was created since, and stays.
    """
    plan = TopicPlan()
    for name in names:
        topic = state.topics.get(name)
        if name in plan.outcomes:
            continue
        if name in ids and (topic is None or topic.topic_id != ids[name]):
            plan.outcomes[name] = Rejection(
                ClusterError.UNKNOWN_TOPIC_ID, "there is no topic with this id in this cluster"
            )
        elif topic is None:
            plan.outcomes[name] = _unknown(name)
        else:
            plan.outcomes[name] = topic
            plan.changes.append(Remove(topic))
    return plan


def _unknown(name: str) -> Rejection:
    return Rejection(
        ClusterError.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name!r} in this cluster"
    )


def create_partitions(state: ClusterState, topics: Sequence[NewPartitions]) -> TopicPlan:
    """Add partitions. Topics only grow: records must stay in the partition of their key."""
    plan = TopicPlan()
    times = Counter(topic.name for topic in topics)
    budget = MAX_PARTITIONS_PER_REQUEST
    for topic in topics:
        if times[topic.name] > 1:
            outcome: TopicRecord | Rejection = Rejection(
                ClusterError.INVALID_REQUEST,
                f"topic {topic.name!r} stands {times[topic.name]} times in this request",
            )
        else:
            outcome = _grow(state, topic, budget)
        plan.outcomes[topic.name] = outcome
        if isinstance(outcome, TopicRecord):
            plan.changes.append(Put(outcome))
            budget -= len(outcome.partitions) - len(state.topics[topic.name].partitions)
    return plan


def _grow(state: ClusterState, request: NewPartitions, budget: int) -> TopicRecord | Rejection:
    topic = state.topics.get(request.name)
    if topic is None:
        return _unknown(request.name)
    current = len(topic.partitions)
    added = request.total - current
    if added <= 0:
        return Rejection(
            ClusterError.INVALID_PARTITIONS,
            f"topic {request.name!r} has {current} partitions already: ask for more than that, "
            f"not for {request.total}",
        )
    if added > budget:
        return _too_many(added, final=False)  # the topic may have grown
    factor = topic.replication_factor
    if request.assignments is None:
        problem = _factor_problem(state, factor)
        placed = (
            []
            if problem
            else place(state.racks(), partitions=added, replication_factor=factor, start=current)
        )
    elif len(request.assignments) != added:
        problem = Rejection(
            ClusterError.INVALID_REPLICA_ASSIGNMENT,
            f"{added} partitions are added to {request.name!r} and {len(request.assignments)} "
            "are assigned: assign each of them",
        )
        placed = []
    else:
        placed = [tuple(replicas) for replicas in request.assignments]
        problem = _assignment_problem(state, placed, factor)
    if problem is not None:
        return problem
    new = tuple(PartitionRecord.on(replicas) for replicas in placed)
    grown = replace(topic, partitions=topic.partitions + new)
    return topic_problem(grown, topic) or grown
