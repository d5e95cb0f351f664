"""`/api/streams`: the streams of the Kinesis gateway, with their shards, open and closed."""

from typing import Any, Final

from anyio.to_thread import run_sync
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from headrace.client.error import ClientError
from headrace.console.console_state import ConsoleState
from headrace.console.request import state_of
from headrace.console.status.snapshot import Snapshot
from headrace.gateway.kinesis.capacity import SHARD_MIB, SHARD_RECORDS
from headrace.gateway.kinesis.stream.hash_key import LARGEST
from headrace.gateway.kinesis.stream.shard import Shard, shard_id
from headrace.gateway.kinesis.stream.stream_state import StreamState
from headrace.model.ids import TopicPartition

_MOST_STREAMS: Final = 200
_MOST_SHARDS: Final = 500
_MIB: Final = 1 << 20


async def list_streams(request: Request) -> Response:
    state = state_of(request)
    await run_sync(state.stream_poller.wait_for_first)
    streams = sorted(state.stream_poller.streams.values(), key=lambda each: each.name)
    return JSONResponse(
        {
            "now_ms": state.clock.wall_ms(),
            "problem": state.stream_poller.problem,
            "more": max(0, len(streams) - _MOST_STREAMS),
            "limits": {"records": SHARD_RECORDS, "bytes": SHARD_MIB * _MIB},
            "streams": [_stream(state, each) for each in streams[:_MOST_STREAMS]],
        }
    )


def _stream(state: ConsoleState, stream: StreamState) -> dict[str, Any]:
    # The newest: what a long list leaves out has been closed for long.
    shards = sorted(stream.shards, key=lambda each: (each.is_open, each.number))[-_MOST_SHARDS:]
    return {
        "name": stream.name,
        "status": stream.status.value,
        "mode": stream.mode.value,
        "created_ms": stream.created_ms,
        "retention_hours": stream.retention_hours,
        "consumers": [each.name for each in stream.consumers],
        "open": sum(each.is_open for each in stream.shards),
        "closed": sum(not each.is_open for each in stream.shards),
        "shards": [_shard(state, stream, each) for each in shards],
    }


def _shard(state: ConsoleState, stream: StreamState, shard: Shard) -> dict[str, Any]:
    place = TopicPartition(stream.name, shard.partition)
    snapshot = _snapshot(state)
    end = snapshot.ends.get(place) if shard.is_open and snapshot is not None else shard.last
    size = 0.0 if snapshot is None else snapshot.bytes_per_record.get(stream.name, 0.0)
    rate = state.stream_poller.ends.rate(place) if shard.is_open else 0.0
    return {
        "id": shard.id,
        "partition": shard.partition,
        # As parts of all hash keys: a browser's numbers have not enough digits.
        "keys": [shard.keys.start / (LARGEST + 1), (shard.keys.end + 1) / (LARGEST + 1)],
        "parents": [shard_id(each) for each in shard.parents],
        "created_ms": shard.created_ms,
        "closed_ms": shard.closed_ms,
        "open": shard.is_open,
        "records": None if end is None else max(0, end - shard.first),
        "records_per_second": rate,
        "bytes_per_second": rate * size,
    }


def _snapshot(state: ConsoleState) -> Snapshot | None:
    try:
        return state.cluster_poller.snapshot
    except ClientError:
        return None


ROUTES: Final = [Route("/streams", list_streams, methods=["GET"])]
