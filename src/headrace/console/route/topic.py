"""`/api/topics`: list, show, create, configure, delete."""

from collections import Counter
from collections.abc import Iterable
from typing import Any, Final

from anyio.to_thread import run_sync
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from headrace.client.admin.admin import Admin, ConfigChange, NewTopic
from headrace.client.error import BrokerError
from headrace.client.network.metadata import TopicMetadata
from headrace.client.network.pool import ConnectionPool
from headrace.console.access.user import Role, User
from headrace.console.config_entry import as_json
from headrace.console.internal import is_internal_group, is_internal_topic
from headrace.console.request import (
    body_of,
    refuse_kept_topic,
    state_of,
    text_in,
    user_with_role,
)
from headrace.console.status.snapshot import Snapshot
from headrace.model.config_code import ConfigOperation, ConfigResourceType
from headrace.model.error import InvalidArgument
from headrace.model.topic_config import MIRROR_KEYS, TOPIC_CONFIG

_MOST_CONFIGS: Final = 100
_MOST_PARTITIONS: Final = 10_000


async def list_topics(request: Request) -> Response:
    state = state_of(request)
    snapshot = state.cluster_poller.snapshot
    sizes: Counter[str] = Counter()
    records: Counter[str] = Counter()
    readers: Counter[str] = Counter()
    for partition, size in snapshot.sizes.partitions.items():
        sizes[partition.topic] += size
    for partition, end in snapshot.ends.items():
        records[partition.topic] += max(end - snapshot.starts.get(partition, end), 0)
    for group in snapshot.groups.values():
        if not is_internal_group(group.group):
            readers.update(group.topics)
    return JSONResponse(
        {
            "at_ms": snapshot.at_ms,
            "topics": [
                {
                    "name": name,
                    "internal": topic.internal or is_internal_topic(name),
                    "partitions": len(topic.partitions),
                    "replicas": topic.replication_factor,
                    "records": records[name],
                    "bytes": sizes[name],
                    "rate": round(rate := state.cluster_poller.history.ends.rate(name), 1),
                    "byte_rate": round(rate * snapshot.bytes_per_record.get(name, 0.0)),
                    "groups": readers[name],
                    "under_replicated": sum(
                        each.under_replicated for each in topic.partitions.values()
                    ),
                    "offline": sum(each.leader < 0 for each in topic.partitions.values()),
                }
                for name, topic in sorted(snapshot.metadata.topics.items())
            ],
        }
    )


async def show(request: Request) -> Response:
    state = state_of(request)
    snapshot, topic = _topic(request)
    times, rates = state.cluster_poller.history.ends.rates(topic.name)
    readers = [
        each
        for each in snapshot.groups.values()
        if topic.name in each.topics and not is_internal_group(each.group)
    ]
    return JSONResponse(
        {
            "name": topic.name,
            "internal": topic.internal,
            "at_ms": snapshot.at_ms,
            "rate": round(state.cluster_poller.history.ends.rate(topic.name), 1),
            "rates": {"times": [at / 1000 for at in times], "in": rates},
            "partitions": [_partition(snapshot, topic, index) for index in topic.partitions],
            "groups": [
                {
                    "name": each.group,
                    "state": each.state,
                    "status": str(each.status),
                    "lag": sum(
                        part.lag for part in each.partitions if part.partition.topic == topic.name
                    ),
                }
                for each in readers
            ],
            "hidden": state.renderer(topic.name).hides,
            "table": state.table_poller.tables.get(topic.name),
        }
    )


def _topic(request: Request) -> tuple[Snapshot, TopicMetadata]:
    poller = state_of(request).cluster_poller
    snapshot = poller.snapshot
    topic = snapshot.metadata.topics.get(request.path_params["topic"])
    if topic is None:
        poller.report_missing()
        raise HTTPException(404, f"there is no topic {request.path_params['topic'][:250]}")
    return snapshot, topic


def _partition(snapshot: Snapshot, topic: TopicMetadata, index: int) -> dict[str, Any]:
    each, partition = topic.partitions[index], topic.partition(index)
    return {
        "partition": index,
        "leader": each.leader,
        "replicas": each.replicas,
        "in_sync": each.in_sync,
        "offline": each.offline,
        "start": snapshot.starts.get(partition),
        "end": snapshot.ends.get(partition),
        "bytes": snapshot.sizes.partitions.get(partition),
    }


async def config(request: Request) -> Response:
    name = request.path_params["topic"]

    def describe(pool: ConnectionPool) -> list[dict[str, Any]]:
        entries = Admin(pool).describe_configs(ConfigResourceType.TOPIC, [name])[name]
        if isinstance(entries, BrokerError):
            raise entries
        return [as_json(each, TOPIC_CONFIG) for each in entries]

    return JSONResponse({"config": await state_of(request).cluster.run(describe)})


async def change_config(request: Request) -> Response:
    """Change keys, or return them to their defaults.

    Body: `{"set": {key: value}, "reset": [key]}`.
    """
    user_with_role(request, Role.EDITOR)
    state, name = state_of(request), request.path_params["topic"]
    refuse_kept_topic(state, name)
    body = await body_of(request)
    changes = _config_changes(body)
    user = _user_for_keys(request, [each.name for each in changes])

    def alter(pool: ConnectionPool) -> None:
        with state.changes.change(pool, user, "topic config", name, body):
            _raise(Admin(pool).alter_configs(ConfigResourceType.TOPIC, {name: changes})[name])

    await state.cluster.run(alter)
    return JSONResponse({})


def _user_for_keys(request: Request, keys: Iterable[str]) -> User:
    """Return the user, who may change these keys of a topic's configuration.

    A mirror shows what its link may read in another cluster, and the broker, which asks for a right
    on the cluster, sees the console's login only: such keys take an administrator.
    """
    mirrors = any(each.startswith(MIRROR_KEYS) for each in keys)
    return user_with_role(request, Role.ADMIN if mirrors else Role.EDITOR)


def _config_changes(body: dict[str, Any]) -> list[ConfigChange]:
    values, resets = body.get("set", {}), body.get("reset", [])
    if not isinstance(values, dict) or not isinstance(resets, list):
        raise InvalidArgument("set is an object of keys and values, reset a list of keys")
    changes = [
        ConfigChange(ConfigOperation.SET, str(key), str(value)) for key, value in values.items()
    ]
    changes += [ConfigChange(ConfigOperation.DELETE, str(key)) for key in resets]
    if not 0 < len(changes) <= _MOST_CONFIGS:
        raise InvalidArgument(f"change between 1 and {_MOST_CONFIGS} keys at once")
    return changes


async def create(request: Request) -> Response:
    """Create a topic. Body: `{"name": ..., "partitions": 1, "replicas": 1, "config": {}}`."""
    user_with_role(request, Role.EDITOR)
    state = state_of(request)
    body = await body_of(request)
    name = text_in(body, "name")
    refuse_kept_topic(state, name)
    configs = {str(key): str(value) for key, value in dict(body.get("config") or {}).items()}
    user = _user_for_keys(request, configs)
    new = NewTopic(
        name,
        _count(body, "partitions", _MOST_PARTITIONS),
        _count(body, "replicas", 100),
        configs,
    )

    def create_topic(pool: ConnectionPool) -> None:
        with state.changes.change(pool, user, "create topic", name, body):
            _raise(Admin(pool).create_topics([new])[name])

    await state.cluster.run(create_topic)
    # The page opens the new topic next, so the snapshot must have it.
    await run_sync(state.cluster_poller.wait_for, name)
    return JSONResponse({"name": name}, status_code=201)


def _count(body: dict[str, Any], name: str, most: int) -> int:
    count = body.get(name, -1)
    if not isinstance(count, int) or isinstance(count, bool) or not (count == -1 or count > 0):
        raise InvalidArgument(f"{name} is a number from 1 on, or -1 for the broker's own default")
    if count > most:
        raise InvalidArgument(f"{name} is {count}: here it is at most {most}")
    return count


async def delete(request: Request) -> Response:
    """Delete a topic. Body: `{"confirm": the topic's name}`."""
    user = user_with_role(request, Role.ADMIN)
    state, name = state_of(request), request.path_params["topic"]
    if (await body_of(request)).get("confirm") != name:
        raise InvalidArgument("to delete a topic, confirm it with its name")
    refuse_kept_topic(state, name)

    def delete_topic(pool: ConnectionPool) -> None:
        with state.changes.change(pool, user, "delete topic", name, {}):
            _raise(Admin(pool).delete_topics([name])[name])

    await state.cluster.run(delete_topic)
    state.cluster_poller.refresh()
    return JSONResponse({})


def _raise(error: BrokerError | None) -> None:
    if error is not None:
        raise error


ROUTES: Final = [
    Route("/topics", list_topics, methods=["GET"]),
    Route("/topics", create, methods=["POST"]),
    Route("/topics/{topic}", show, methods=["GET"]),
    Route("/topics/{topic}", delete, methods=["DELETE"]),
    Route("/topics/{topic}/config", config, methods=["GET"]),
    Route("/topics/{topic}/config", change_config, methods=["PATCH"]),
]
