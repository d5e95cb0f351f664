"""The six operations on tags, of streams, registered consumers and channels."""

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from headrace.gateway.kinesis.channel.channel_state import ChannelState
from headrace.gateway.kinesis.error import invalid_argument, not_found
from headrace.gateway.kinesis.identity.account import channel_of_arn, consumer_of_arn
from headrace.gateway.kinesis.operation.channel import named_channel, no_channel
from headrace.gateway.kinesis.service import KinesisService, Request, Response
from headrace.gateway.kinesis.stream.stream_state import Consumer, StreamState

_MOST: Final = 50
_PER_PAGE: Final = 50

Change = Callable[[dict[str, str]], dict[str, str]]


def add_tags(service: KinesisService, request: Request) -> Response:
    """AddTagsToStream and TagResource."""
    _change(service, request, lambda tags: tags | request["Tags"])
    return {}


def remove_tags(service: KinesisService, request: Request) -> Response:
    """RemoveTagsFromStream and UntagResource."""
    gone = set(request["TagKeys"])
    _change(
        service,
        request,
        lambda tags: {name: value for name, value in tags.items() if name not in gone},
    )
    return {}


def list_tags_for_stream(service: KinesisService, request: Request) -> Response:
    after = request.get("ExclusiveStartTagKey", "")
    tags = sorted(service.stream(request).tags.items())
    left = [(name, value) for name, value in tags if name > after]
    limit = request.get("Limit", _PER_PAGE)
    return {"Tags": _fields(left[:limit]), "HasMoreTags": len(left) > limit}


def list_tags_for_resource(service: KinesisService, request: Request) -> Response:
    if channel_of_arn(request["ResourceARN"]) is not None:
        return {"Tags": _fields(sorted(named_channel(service, request).tags.items()))}
    stream = service.stream(request)
    named = consumer_of_arn(request["ResourceARN"])
    tags = stream.tags if named is None else _consumer(stream, named[1]).tags
    return {"Tags": _fields(sorted(tags.items()))}


def _fields(tags: list[tuple[str, str]]) -> list[dict[str, str]]:
    return [{"Key": name, "Value": value} for name, value in tags]


def _change(service: KinesisService, request: Request, change: Change) -> None:
    arn = request.get("ResourceARN", "")
    named, channel = consumer_of_arn(arn), channel_of_arn(arn)

    def checked(tags: dict[str, str]) -> dict[str, str]:
        changed = change(tags)
        if len(changed) > _MOST:
            raise invalid_argument(f"A resource has at most {_MOST} tags.")
        return changed

    def channel_step(current: ChannelState | None) -> ChannelState:
        if current is None:
            raise no_channel(arn)
        return replace(current, tags=checked(current.tags))

    if channel is not None:
        service.channels.change(channel, channel_step)
        return

    def step(stream: StreamState) -> StreamState:
        if named is None:
            return stream.changed(tags=checked(stream.tags))
        consumer = _consumer(stream, named[1])
        changed = replace(consumer, tags=checked(consumer.tags))
        return stream.changed(
            consumers=tuple(
                changed if each.name == changed.name else each for each in stream.consumers
            )
        )

    service.change(request, step)


def _consumer(stream: StreamState, name: str) -> Consumer:
    for each in stream.consumers:
        if each.name == name:
            return each
    raise not_found(f"Consumer {name} of stream {stream.name} not found.")
