"""`/api/overview`: the whole cluster on one page; `/api/brokers/N/config`: one broker's keys."""

from collections import Counter
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from headrace.client.admin import Admin, ResourceType
from headrace.client.error import BrokerError
from headrace.console.config_entry import as_json
from headrace.console.desk import Desk
from headrace.console.request import desk_of
from headrace.console.watch import Past, Sight
from headrace.model.broker_config import BROKER_CONFIG

# What the picture has room for.
_MOST_TOPICS: Final = 8
_MOST_GROUPS: Final = 10


async def see(request: Request) -> Response:
    desk = desk_of(request)
    sight, past = desk.watch.sight, desk.watch.past
    leaders: Counter[int] = Counter()
    partitions = under = offline = 0
    for topic in sight.metadata.topics.values():
        for each in topic.partitions.values():
            partitions += 1
            leaders[each.leader] += 1
            under += each.under_replicated
            offline += each.leader < 0
    topics = sight.metadata.topics.values()
    statuses = Counter(str(each.status) for each in sight.groups.values())
    return JSONResponse(
        {
            "at_ms": sight.at_ms,
            "took_ms": sight.took_ms,
            "problem": desk.watch.problem,
            "cluster_id": sight.metadata.cluster_id,
            "controller": sight.metadata.controller,
            "brokers": [
                _broker(sight, number, leaders) for number in sorted(sight.metadata.brokers)
            ],
            "topics": sum(not each.internal for each in topics),
            "partitions": partitions,
            "under_replicated": under,
            "offline": offline,
            "bytes": sum(sight.sizes.brokers.values()),
            "groups": len(sight.groups),
            "group_status": dict(statuses),
            "lag": sum(each.lag for each in sight.groups.values()),
            "rates": _rates(past),
            "picture": _picture(desk, sight, past),
        }
    )


def _broker(sight: Sight, number: int, leaders: Counter[int]) -> dict[str, Any]:
    broker = sight.metadata.brokers[number]
    return {
        "id": number,
        "host": broker.address.host,
        "port": broker.address.port,
        "rack": broker.rack,
        "leads": leaders[number],
        "bytes": sight.sizes.brokers.get(number),
        "disk_total": sight.sizes.total.get(number, -1),
        "disk_free": sight.sizes.free.get(number, -1),
    }


def _rates(past: Past) -> dict[str, Any]:
    """Records a second over the last minutes."""
    flow = past.flow
    return {
        "times": [each.at_ms / 1000 for each in flow],
        "in": [round(each.written, 1) for each in flow],
        "out": [round(each.read, 1) for each in flow],
    }


def _picture(desk: Desk, sight: Sight, past: Past) -> dict[str, Any]:
    """Sources, topics and readers, with what flows between them."""
    names = [name for name, topic in sight.metadata.topics.items() if not topic.internal]
    own = (desk.settings.changes_topic, desk.settings.audit_topic)
    names = [name for name in names if name not in own]
    busiest = sorted(names, key=lambda name: (-past.ends.rate(name), name))[:_MOST_TOPICS]
    topics = [{"name": name, "rate": round(past.ends.rate(name), 1)} for name in sorted(busiest)]
    shown = set(busiest)
    readers = [each for each in sight.groups.values() if shown.intersection(each.topics)]
    readers.sort(key=lambda each: (-each.lag, each.group))
    arrows = [
        {
            "topic": name,
            "group": each.group,
            "rate": round(past.committed.rate((each.group, name)), 1),
        }
        for each in readers[:_MOST_GROUPS]
        for name in each.topics
        if name in shown
    ]
    groups = [
        {"name": each.group, "lag": each.lag, "status": str(each.status)}
        for each in readers[:_MOST_GROUPS]
    ]
    return {
        "topics": topics,
        "groups": groups,
        "arrows": arrows,
        "more_topics": max(len(names) - len(topics), 0),
        "more_groups": max(len(readers) - len(groups), 0),
    }


async def broker_config(request: Request) -> Response:
    number = str(request.path_params["number"])

    def ask(pool: Any) -> list[dict[str, Any]]:
        found = Admin(pool).describe_configs(ResourceType.BROKER, [number])[number]
        if isinstance(found, BrokerError):
            raise found
        return [as_json(each, BROKER_CONFIG) for each in found]

    return JSONResponse({"config": await desk_of(request).cluster.ask(ask)})


ROUTES: Final = [
    Route("/overview", see, methods=["GET"]),
    Route("/brokers/{number:int}/config", broker_config, methods=["GET"]),
]
