"""`/api/groups` and `/api/group?name=`: state, members, lag over time, offsets set anew.

A group may have any name, also one that no path could hold: so it stands in the query.
"""

from collections.abc import Mapping
from typing import Any, Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from headrace.client.error import BrokerError, ClientError
from headrace.client.group.group_admin import GroupAdmin
from headrace.client.network.pool import ConnectionPool
from headrace.client.read.offset_lookup import FoundOffset, LogExtent, extents, list_offsets
from headrace.console.internal import is_internal_group
from headrace.console.request import body_of, changer, desk_of
from headrace.console.user import Role
from headrace.flow.execution.progress_group import flow_of
from headrace.lag.report import GroupLag
from headrace.model.error import InvalidArgument
from headrace.model.ids import TopicPartition

# Charts with more lines than this cannot be read.
_MOST_LINES: Final = 6


async def list_groups(request: Request) -> Response:
    desk = desk_of(request)
    sight, past = desk.watch.sight, desk.watch.past
    return JSONResponse(
        {
            "at_ms": sight.at_ms,
            "groups": [
                {
                    "name": each.group,
                    "internal": is_internal_group(each.group),
                    "flow": flow_of(each.group),
                    "state": each.state,
                    "type": each.type,
                    "coordinator": each.coordinator,
                    "topics": each.topics,
                    "partitions": len(each.partitions),
                    "lag": each.lag,
                    "status": str(each.status),
                    "rate": round(
                        sum(past.committed.rate((each.group, topic)) for topic in each.topics), 1
                    ),
                }
                for each in sight.groups.values()
            ],
        }
    )


def _name(request: Request) -> str:
    name = request.query_params.get("name", "")
    if not name:
        raise InvalidArgument("name the group: ?name=GROUP")
    return name


async def see(request: Request) -> Response:
    desk, name = desk_of(request), _name(request)
    known = desk.watch.sight.groups.get(name)
    described = await desk.cluster.ask(lambda pool: GroupAdmin(pool).describe(name))
    if isinstance(described, BrokerError):
        if known is None:
            raise described
        members: list[dict[str, Any]] = []
        assignor, state = "", known.state
    else:
        assignor, state = described.assignor, described.state
        members = [
            {
                "id": each.member_id,
                "instance": each.instance_id,
                "client": each.client_id,
                "host": each.host,
                "partitions": [str(partition) for partition in each.partitions],
            }
            for each in described.members
        ]
    lag = {} if known is None else known.as_json()
    return JSONResponse(
        {
            **lag,
            "group": name,
            "flow": flow_of(name),
            "state": state,
            "assignor": assignor,
            "members": members,
            "history": _history(request, known),
        }
    )


def _history(request: Request, group: GroupLag | None) -> dict[str, Any]:
    """Lag over time: the partitions that are furthest behind, and all together."""
    past = desk_of(request).watch.past.lags
    if group is None:
        return {"times": [], "lines": []}
    worst = sorted(group.partitions, key=lambda each: (-each.lag, each.partition))
    times: list[int] = []
    lines = []
    for each in worst[:_MOST_LINES]:
        at, values = past.values((group.group, each.partition))
        times = at if len(at) > len(times) else times
        lines.append((str(each.partition), values))
    return {
        "times": [at / 1000 for at in times],
        "lines": [
            {"partition": name, "lag": [*[None] * (len(times) - len(values)), *values]}
            for name, values in lines
        ],
    }


async def reset(request: Request) -> Response:
    """`{"to": "start" | "end" | "offset" | "time" | "shift", "value": N, "topics": [...],
    "preview": true}`: where each partition is and would be; done unless it is a preview."""
    body = await body_of(request)
    preview = body.get("preview") is not False
    desk, name = desk_of(request), _name(request)
    user = None if preview else changer(request, Role.EDITOR)
    to, value = body.get("to"), body.get("value", 0)
    if to not in ("start", "end", "offset", "time", "shift"):
        raise InvalidArgument("to is start, end, offset, time or shift")
    if not isinstance(value, int) or isinstance(value, bool) or abs(value) > 2**62:
        raise InvalidArgument("value is a whole number")
    topics = body.get("topics")
    if topics is not None and not (isinstance(topics, list) and all(map(_is_text, topics))):
        raise InvalidArgument("topics is a list of names")

    def ask(pool: ConnectionPool) -> list[dict[str, Any]]:
        before = _chosen(pool, name, topics)
        after = _targets(pool, before, to, value)
        if user is None:
            return _rows(before, after, {})
        detail = {"to": to, "value": value, "topics": topics}
        with desk.changes.change(pool, user, "reset offsets", name, detail):
            outcomes = GroupAdmin(pool).commit(name, after)
            failed = [each for each in outcomes.values() if each is not None]
            if failed and len(failed) == len(outcomes):
                raise failed[0]
        return _rows(before, after, outcomes)

    rows = await desk.cluster.ask(ask)
    if not preview:
        desk.watch.hurry()
    return JSONResponse({"preview": preview, "partitions": rows})


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _chosen(
    pool: ConnectionPool, group: str, topics: list[str] | None
) -> dict[TopicPartition, int | None]:
    """What the group has committed, and, of topics that are named, what it has not."""
    committed = GroupAdmin(pool).offsets(group)
    found: dict[TopicPartition, int | None] = {
        each: offset for each, offset in committed.items() if topics is None or each.topic in topics
    }
    if topics:
        for name, topic in pool.metadata(topics).topics.items():
            if topic.error is not None:
                raise ClientError(f"topic {name}: {topic.error}")
            for index in topic.partitions:
                found.setdefault(topic.partition(index), None)
    if not found:
        raise HTTPException(400, "the group has committed nothing there: name topics")
    return dict(sorted(found.items()))


def _targets(
    pool: ConnectionPool, before: Mapping[TopicPartition, int | None], to: str, value: int
) -> dict[TopicPartition, int]:
    """Where each partition goes; never out of its log."""
    found = {}
    times: Mapping[TopicPartition, FoundOffset | ClientError] = {}
    if to == "time":
        times = list_offsets(pool, dict.fromkeys(before, max(value, 0)))
    for partition, extent in extents(pool, list(before)).items():
        if not isinstance(extent, LogExtent):
            raise extent
        at = before[partition]
        wanted = {
            "start": extent.start,
            "end": extent.end,
            "offset": value,
            "shift": (extent.start if at is None else at) + value,
        }.get(to, extent.end)
        moment = times.get(partition)
        if isinstance(moment, FoundOffset) and moment.offset >= 0:
            wanted = moment.offset
        found[partition] = min(max(wanted, extent.start), extent.end)
    return found


def _rows(
    before: Mapping[TopicPartition, int | None],
    after: Mapping[TopicPartition, int],
    outcomes: Mapping[TopicPartition, BrokerError | None],
) -> list[dict[str, Any]]:
    return [
        {
            "topic": each.topic,
            "partition": each.partition,
            "before": before[each],
            "after": offset,
            "error": None if outcomes.get(each) is None else str(outcomes[each]),
        }
        for each, offset in after.items()
    ]


async def delete(request: Request) -> Response:
    """`{"confirm": the group's name}`."""
    user = changer(request, Role.ADMIN)
    desk, name = desk_of(request), _name(request)
    if (await body_of(request)).get("confirm") != name:
        raise InvalidArgument("to delete a group, confirm it with its name")

    def ask(pool: ConnectionPool) -> None:
        with desk.changes.change(pool, user, "delete group", name, {}):
            error = GroupAdmin(pool).delete(name)
            if error is not None:
                raise error

    await desk.cluster.ask(ask)
    desk.watch.hurry()
    return JSONResponse({})


ROUTES: Final = [
    Route("/groups", list_groups, methods=["GET"]),
    Route("/group", see, methods=["GET"]),
    Route("/group", delete, methods=["DELETE"]),
    Route("/group/offsets", reset, methods=["POST"]),
]
