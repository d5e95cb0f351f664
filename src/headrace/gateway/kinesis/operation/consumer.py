"""Registered consumers: register, describe, list, deregister."""

from typing import Any, Final

from headrace.gateway.kinesis.error import in_use, invalid_argument, limit_exceeded, not_found
from headrace.gateway.kinesis.identity.account import consumer_of_arn
from headrace.gateway.kinesis.identity.page_token import read_token, write_token
from headrace.gateway.kinesis.protocol.timestamp import Timestamp
from headrace.gateway.kinesis.service import KinesisService, Request, Response
from headrace.gateway.kinesis.stream.stream_state import Consumer, StreamState

_MOST: Final = 20
_PER_PAGE: Final = 100


def register_consumer(service: KinesisService, request: Request) -> Response:
    name = request["ConsumerName"]

    def step(stream: StreamState) -> StreamState:
        if any(each.name == name for each in stream.consumers):
            raise in_use(
                f"Consumer {name} under stream {stream.name} already exists for account "
                f"{service.account.id}."
            )
        if len(stream.consumers) >= _MOST:
            raise limit_exceeded(f"A stream has at most {_MOST} registered consumers.")
        consumer = Consumer(name, service.now_ms(), dict(request.get("Tags", {})))
        return stream.changed(consumers=(*stream.consumers, consumer))

    stream = service.change(request, step)
    return {"Consumer": _fields(service, stream, stream.consumers[-1])}


def describe_consumer(service: KinesisService, request: Request) -> Response:
    stream, consumer = named_consumer(service, request)
    fields = _fields(service, stream, consumer)
    return {"ConsumerDescription": {**fields, "StreamARN": service.account.stream_arn(stream.name)}}


def list_consumers(service: KinesisService, request: Request) -> Response:
    stream = service.stream(request)
    after = ""
    token = request.get("NextToken")
    if token is not None:
        content = read_token(service.store.seal, "ListStreamConsumers", token, service.now_ms())
        if content["stream"] != stream.name:
            raise invalid_argument("NextToken does not match the stream of StreamARN.")
        after = content["after"]
    found = sorted(
        (each for each in stream.consumers if each.name > after), key=lambda each: each.name
    )
    limit = request.get("MaxResults", _PER_PAGE)
    page = found[:limit]
    response: Response = {"Consumers": [_fields(service, stream, each) for each in page]}
    if len(found) > limit:
        content = {"stream": stream.name, "after": page[-1].name}
        response["NextToken"] = write_token(
            service.store.seal, "ListStreamConsumers", content, service.now_ms()
        )
    return response


def deregister_consumer(service: KinesisService, request: Request) -> Response:
    stream, consumer = named_consumer(service, request)

    def step(known: StreamState) -> StreamState:
        gone = (consumer.name, consumer.created_ms)
        left = tuple(each for each in known.consumers if (each.name, each.created_ms) != gone)
        return known.changed(consumers=left)

    service.change({"StreamName": stream.name}, step)
    return {}


def named_consumer(service: KinesisService, request: Request) -> tuple[StreamState, Consumer]:
    """Return the consumer that ConsumerARN names, or StreamARN and ConsumerName.

    Raises:
        ServiceError: neither is there, or there is no such consumer.
    """
    arn = request.get("ConsumerARN")
    if arn is not None:
        parts = consumer_of_arn(arn)
        if parts is None:
            raise invalid_argument(f"{arn[:200]} is no ARN of a consumer.")
        stream = service.stream({"StreamName": parts[0]})
        name = parts[1]
    elif "StreamARN" in request and "ConsumerName" in request:
        stream = service.stream(request)
        name = request["ConsumerName"]
    else:
        raise invalid_argument(
            "Either ConsumerARN or both StreamARN and ConsumerName must be provided."
        )
    for each in stream.consumers:
        if each.name == name and (arn is None or parts is None or _seconds(each) == parts[2]):
            return stream, each
    raise not_found(
        f"Consumer {name} under stream {stream.name} not found for account {service.account.id}."
    )


def _seconds(consumer: Consumer) -> int:
    return consumer.created_ms // 1000


def _fields(service: KinesisService, stream: StreamState, consumer: Consumer) -> dict[str, Any]:
    return {
        "ConsumerName": consumer.name,
        "ConsumerARN": service.account.consumer_arn(stream.name, consumer.name, _seconds(consumer)),
        "ConsumerStatus": "ACTIVE",
        "ConsumerCreationTimestamp": Timestamp(consumer.created_ms),
    }
