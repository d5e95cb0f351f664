"""`/api/groups` and `/api/group?name=`: state, members, lag over time; reset offsets, delete.

A group may have a name that no path can hold, so the name is in the query.
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
from headrace.console.access.user import Role
from headrace.console.internal import is_internal_group
from headrace.console.request import body_of, state_of, user_with_role
from headrace.flow.execution.progress_group import flow_of
from headrace.lag.report import GroupLag
from headrace.model.error import InvalidArgument
from headrace.model.ids import TopicPartition

# Charts with more lines than this cannot be read.
_MOST_LINES: Final = 6


async def list_groups(request: Request) -> Response:
    state = state_of(request)
    snapshot, history = state.cluster_poller.snapshot, state.cluster_poller.history
    return JSONResponse(
        {
            "at_ms": snapshot.at_ms,
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
                        sum(history.committed.rate((each.group, topic)) for topic in each.topics), 1
                    ),
                }
                for each in snapshot.groups.values()
            ],
        }
    )


def _name(request: Request) -> str:
    name = request.query_params.get("name", "")
    if not name:
        raise InvalidArgument("name the group: ?name=GROUP")
    return name


async def show(request: Request) -> Response:
    state, name = state_of(request), _name(request)
    known = state.cluster_poller.snapshot.groups.get(name)
    described = await state.cluster.run(lambda pool: GroupAdmin(pool).describe(name))
    if isinstance(described, BrokerError):
        if known is None:
            raise described
        members: list[dict[str, Any]] = []
        assignor, group_state = "", known.state
    else:
        assignor, group_state = described.assignor, described.state
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
            "state": group_state,
            "assignor": assignor,
            "members": members,
            "history": _history(request, known),
        }
    )


def _history(request: Request, group: GroupLag | None) -> dict[str, Any]:
    """Return the lag over time of the partitions that are furthest behind."""
    lags = state_of(request).cluster_poller.history.lags
    if group is None:
        return {"times": [], "lines": []}
    worst = sorted(group.partitions, key=lambda each: (-each.lag, each.partition))
    times: list[int] = []
    lines = []
    for each in worst[:_MOST_LINES]:
        at, values = lags.values((group.group, each.partition))
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
    """Return the old and the new offset of each partition; commit the new ones unless it is a
    preview.

    Body: `{"to": "start" | "end" | "offset" | "time" | "shift", "value": N, "topics": [...],
    "preview": true}`.
    """
    body = await body_of(request)
    preview = body.get("preview") is not False
    state, name = state_of(request), _name(request)
    user = None if preview else user_with_role(request, Role.EDITOR)
    to, value = body.get("to"), body.get("value", 0)
    if to not in ("start", "end", "offset", "time", "shift"):
        raise InvalidArgument("to is start, end, offset, time or shift")
    if not isinstance(value, int) or isinstance(value, bool) or abs(value) > 2**62:
        raise InvalidArgument("value is a whole number")
    topics = body.get("topics")
    if topics is not None and not (isinstance(topics, list) and all(map(_is_text, topics))):
        raise InvalidArgument("topics is a list of names")

    def preview_or_commit(pool: ConnectionPool) -> list[dict[str, Any]]:
        before = _committed(pool, name, topics)
        after = _targets(pool, before, to, value)
        if user is None:
            return _rows(before, after, {})
        detail = {"to": to, "value": value, "topics": topics}
        with state.changes.change(pool, user, "reset offsets", name, detail):
            outcomes = GroupAdmin(pool).commit(name, after)
            failed = [each for each in outcomes.values() if each is not None]
            if failed and len(failed) == len(outcomes):
                raise failed[0]
        return _rows(before, after, outcomes)

    rows = await state.cluster.run(preview_or_commit)
    if not preview:
        state.cluster_poller.refresh()
    return JSONResponse({"preview": preview, "partitions": rows})


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _committed(
    pool: ConnectionPool, group: str, topics: list[str] | None
) -> dict[TopicPartition, int | None]:
    """Return what the group has committed; None for other partitions of the named topics."""
    committed = GroupAdmin(pool).offsets(group)
    offsets: dict[TopicPartition, int | None] = {
        each: offset for each, offset in committed.items() if topics is None or each.topic in topics
    }
    if topics:
        for name, topic in pool.metadata(topics).topics.items():
            if topic.error is not None:
                raise ClientError(f"topic {name}: {topic.error}")
            for index in topic.partitions:
                offsets.setdefault(topic.partition(index), None)
    if not offsets:
        raise HTTPException(400, "the group has committed nothing there: name topics")
    return dict(sorted(offsets.items()))


def _targets(
    pool: ConnectionPool, before: Mapping[TopicPartition, int | None], to: str, value: int
) -> dict[TopicPartition, int]:
    """Return the new offset of each partition, always within its log."""
    targets = {}
    times: Mapping[TopicPartition, FoundOffset | ClientError] = {}
    if to == "time":
        times = list_offsets(pool, dict.fromkeys(before, max(value, 0)))
    for partition, extent in extents(pool, list(before)).items():
        if not isinstance(extent, LogExtent):
            raise extent
        at = before[partition]
        target = {
            "start": extent.start,
            "end": extent.end,
            "offset": value,
            "shift": (extent.start if at is None else at) + value,
        }.get(to, extent.end)
        moment = times.get(partition)
        if isinstance(moment, FoundOffset) and moment.offset >= 0:
            target = moment.offset
        targets[partition] = min(max(target, extent.start), extent.end)
    return targets


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
    """Delete a group. Body: `{"confirm": the group's name}`."""
    user = user_with_role(request, Role.ADMIN)
    state, name = state_of(request), _name(request)
    if (await body_of(request)).get("confirm") != name:
        raise InvalidArgument("to delete a group, confirm it with its name")

    def delete_group(pool: ConnectionPool) -> None:
        with state.changes.change(pool, user, "delete group", name, {}):
            error = GroupAdmin(pool).delete(name)
            if error is not None:
                raise error

    await state.cluster.run(delete_group)
    state.cluster_poller.refresh()
    return JSONResponse({})


ROUTES: Final = [
    Route("/groups", list_groups, methods=["GET"]),
    Route("/group", show, methods=["GET"]),
    Route("/group", delete, methods=["DELETE"]),
    Route("/group/offsets", reset, methods=["POST"]),
]
