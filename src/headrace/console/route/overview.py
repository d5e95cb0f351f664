"""`/api/overview`: the whole cluster; `/api/brokers/N/config`: the configuration of one broker."""

from collections import Counter
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from headrace.client.admin.admin import Admin
from headrace.client.error import BrokerError
from headrace.console.config_entry import as_json
from headrace.console.console_state import ConsoleState
from headrace.console.flow_map import FlowMapInput, flow_map
from headrace.console.internal import is_internal_group, is_internal_topic
from headrace.console.request import state_of
from headrace.console.status.cluster_health import ClusterHealth
from headrace.console.status.flow_status import FlowStatus
from headrace.console.status.snapshot import Snapshot
from headrace.console.status.snapshot_history import SnapshotHistory
from headrace.model.broker_config import BROKER_CONFIG
from headrace.model.config_code import ConfigResourceType


async def show(request: Request) -> Response:
    state = state_of(request)
    snapshot, history = state.cluster_poller.snapshot, state.cluster_poller.history
    health = ClusterHealth.of(snapshot.metadata, snapshot.min_isr)
    groups = [each for each in snapshot.groups.values() if not is_internal_group(each.group)]
    statuses = Counter(str(each.status) for each in groups)
    return JSONResponse(
        {
            "at_ms": snapshot.at_ms,
            "took_ms": snapshot.took_ms,
            "problem": state.cluster_poller.problem,
            "cluster_id": snapshot.metadata.cluster_id,
            "controller": snapshot.metadata.controller,
            "brokers": [
                _broker(snapshot, number, health.leads)
                for number in sorted(snapshot.metadata.brokers)
            ],
            "topics": sum(not is_internal_topic(each) for each in snapshot.metadata.topics),
            "partitions": health.partitions,
            "under_replicated": health.under_replicated,
            "under_min_isr": health.under_min_isr,
            "offline": health.offline,
            "bytes": sum(snapshot.sizes.brokers.values()),
            "groups": len(groups),
            "group_status": dict(statuses),
            "lag": sum(each.lag for each in groups),
            "rates": _rates(history),
            "picture": _flow_map(state, snapshot, history),
        }
    )


def _broker(snapshot: Snapshot, number: int, leaders: Counter[int]) -> dict[str, Any]:
    broker = snapshot.metadata.brokers[number]
    return {
        "id": number,
        "host": broker.address.host,
        "port": broker.address.port,
        "rack": broker.rack,
        "leads": leaders[number],
        "bytes": snapshot.sizes.brokers.get(number),
        "disk_total": snapshot.sizes.total.get(number, -1),
        "disk_free": snapshot.sizes.free.get(number, -1),
    }


def _rates(history: SnapshotHistory) -> dict[str, Any]:
    """Return records and bytes per second over the last minutes."""
    points = history.throughput
    return {
        "times": [each.at_ms / 1000 for each in points],
        "in": [round(each.written, 1) for each in points],
        "out": [round(each.read, 1) for each in points],
        "in_bytes": [round(each.written_bytes) for each in points],
        "out_bytes": [round(each.read_bytes) for each in points],
    }


def _flow_map(state: ConsoleState, snapshot: Snapshot, history: SnapshotHistory) -> dict[str, Any]:
    """Return the map of sources, topics, flows and sinks, with the rates between them."""
    written = state.status_poller.written
    addresses = _addresses(state, snapshot)
    source = FlowMapInput(
        topics={name: history.ends.rate(name) for name in snapshot.metadata.topics},
        groups=snapshot.groups,
        flows=tuple(each for each in state.status_poller.flows if _uses_cluster(each, addresses)),
        agents=state.status_poller.agents,
        read={
            (group.group, topic): history.committed.rate((group.group, topic))
            for group in snapshot.groups.values()
            for topic in group.topics
        },
        written={key: written.rate(key) for key in written.keys()},  # noqa: SIM118 - no mapping
        bytes_per_record=snapshot.bytes_per_record,
    )
    return flow_map(source)


def _addresses(state: ConsoleState, snapshot: Snapshot) -> set[str]:
    addresses = [str(each) for each in state.settings.client.bootstrap]
    addresses += [str(each.address) for each in snapshot.metadata.brokers.values()]
    return {each.replace("localhost:", "127.0.0.1:") for each in addresses}


def _uses_cluster(flow: FlowStatus, addresses: set[str]) -> bool:
    """Return whether a flow on this machine uses this cluster, and not another one."""
    brokers = flow.brokers.replace("localhost:", "127.0.0.1:").split(",")
    return not flow.brokers or any(each.strip() in addresses for each in brokers)


async def broker_config(request: Request) -> Response:
    number = str(request.path_params["number"])

    def describe(pool: Any) -> list[dict[str, Any]]:
        entries = Admin(pool).describe_configs(ConfigResourceType.BROKER, [number])[number]
        if isinstance(entries, BrokerError):
            raise entries
        return [as_json(each, BROKER_CONFIG) for each in entries]

    return JSONResponse({"config": await state_of(request).cluster.run(describe)})


ROUTES: Final = [
    Route("/overview", show, methods=["GET"]),
    Route("/brokers/{number:int}/config", broker_config, methods=["GET"]),
]
