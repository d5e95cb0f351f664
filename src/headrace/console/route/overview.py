"""`/api/overview`: the whole cluster on one page; `/api/brokers/N/config`: one broker's keys."""

from collections import Counter
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from headrace.client.admin.admin import Admin, ResourceType
from headrace.client.error import BrokerError
from headrace.console.config_entry import as_json
from headrace.console.desk import Desk
from headrace.console.flow_map import Scene, flow_map
from headrace.console.internal import is_internal_group, is_internal_topic
from headrace.console.request import desk_of
from headrace.console.seen_flow import SeenFlow
from headrace.console.watch import Past, Sight
from headrace.model.broker_config import BROKER_CONFIG


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
    groups = [each for each in sight.groups.values() if not is_internal_group(each.group)]
    statuses = Counter(str(each.status) for each in groups)
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
            "topics": sum(not is_internal_topic(each) for each in sight.metadata.topics),
            "partitions": partitions,
            "under_replicated": under,
            "offline": offline,
            "bytes": sum(sight.sizes.brokers.values()),
            "groups": len(groups),
            "group_status": dict(statuses),
            "lag": sum(each.lag for each in groups),
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
    """Records and bytes a second over the last minutes."""
    flow = past.flow
    return {
        "times": [each.at_ms / 1000 for each in flow],
        "in": [round(each.written, 1) for each in flow],
        "out": [round(each.read, 1) for each in flow],
        "in_bytes": [round(each.written_bytes) for each in flow],
        "out_bytes": [round(each.read_bytes) for each in flow],
    }


def _picture(desk: Desk, sight: Sight, past: Past) -> dict[str, Any]:
    """Sources, topics, flows and sinks, with what flows between them."""
    written = desk.neighbours.written
    places = _addresses(desk, sight)
    scene = Scene(
        topics={name: past.ends.rate(name) for name in sight.metadata.topics},
        groups=sight.groups,
        flows=tuple(each for each in desk.neighbours.flows if _is_here(each, places)),
        agents=desk.neighbours.agents,
        read={
            (group.group, topic): past.committed.rate((group.group, topic))
            for group in sight.groups.values()
            for topic in group.topics
        },
        counted={key: written.rate(key) for key in written.keys()},  # noqa: SIM118 - no mapping
        bytes_per_record=sight.bytes_per_record,
    )
    return flow_map(scene)


def _addresses(desk: Desk, sight: Sight) -> set[str]:
    told = [str(each) for each in desk.settings.client.bootstrap]
    told += [str(each.address) for each in sight.metadata.brokers.values()]
    return {each.replace("localhost:", "127.0.0.1:") for each in told}


def _is_here(flow: SeenFlow, places: set[str]) -> bool:
    """Whether a flow of this machine works on this cluster, and not on another one."""
    told = flow.brokers.replace("localhost:", "127.0.0.1:").split(",")
    return not flow.brokers or any(each.strip() in places for each in told)


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
