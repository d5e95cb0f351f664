"""Decides whether the sender of a request may make it: finds the resources and asks their policies.

Rule 1: operations that touch no stream, such as CreateStream, are for the own account.
Rule 2: the own account may always read and change policies: else one could lock everyone out.
Rule 3: an iterator was given out by GetShardIterator, perhaps under another policy. So GetRecords
is decided by the stream in it, and so is ListShards by the one in its token.
Rule 4: the policy of a consumer speaks of that consumer alone. It allows nothing of its stream.
Rule 5: channels are for the own account, whose place their files go to. The policy of a stream can
deny CreateChannel to some of it, and allow it to no other account.
"""

from http import HTTPStatus
from typing import Final

from headrace.gateway.kinesis.access.policy import is_allowed
from headrace.gateway.kinesis.error import ServiceError
from headrace.gateway.kinesis.identity.account import consumer_of_arn, stream_of_arn
from headrace.gateway.kinesis.identity.page_token import read_token
from headrace.gateway.kinesis.identity.shard_iterator import ShardIterator
from headrace.gateway.kinesis.service import KinesisService, Request

_POLICIES: Final = frozenset({"PutResourcePolicy", "GetResourcePolicy", "DeleteResourcePolicy"})
_OF_CONSUMERS: Final = _POLICIES | {
    "DescribeStreamConsumer",
    "SubscribeToShard",
    "DeregisterStreamConsumer",
    "ListTagsForResource",
    "TagResource",
    "UntagResource",
}


def authorize(
    service: KinesisService, access_key: str | None, operation: str, request: Request
) -> None:
    """Refuse what policies forbid.

    Args:
        access_key: whose signature the request has; None without keys, when everyone is the owner.

    Raises:
        ServiceError: AccessDeniedException.
    """
    principal = service.principal(access_key)
    own = service.account.id
    if operation in _POLICIES and principal.account == own:
        return
    policies = _policies(service, operation, request)
    if operation == "CreateChannel" and principal.account != own:
        policies = []
    if operation not in _OF_CONSUMERS:
        policies = policies[:1]
    if not is_allowed(principal, own, f"kinesis:{operation}", policies):
        resource = policies[0][0] if policies else "*"
        raise ServiceError(
            "AccessDeniedException",
            f"User: {principal.arn} is not authorized to perform: kinesis:{operation} on resource: "
            f"{resource}",
            HTTPStatus.BAD_REQUEST,
        )


def _policies(service: KinesisService, operation: str, request: Request) -> list[tuple[str, str]]:
    """Return the resources of a request with their policies, the stream first."""
    name, consumer = _named(service, operation, request)
    if name is None:
        return []
    stream = service.store.streams.get(name)
    found = [(service.account.stream_arn(name), "" if stream is None else stream.policy)]
    if consumer is not None and stream is not None:
        found += [
            (
                service.account.consumer_arn(name, each.name, each.created_ms // 1000),
                each.policy,
            )
            for each in stream.consumers
            if each.name == consumer
        ]
    return found


def _named(
    service: KinesisService, operation: str, request: Request
) -> tuple[str | None, str | None]:
    """Return the names of the stream and of the consumer that a request touches."""
    now_ms = service.now_ms()
    if operation == "GetRecords":
        text = request["ShardIterator"]
        return ShardIterator.opened(text, service.store.seal, now_ms).stream, None
    if operation == "ListShards" and "NextToken" in request:
        token = read_token(service.store.seal, operation, request["NextToken"], now_ms)
        return token["stream"], None
    if operation == "CreateChannel":
        return stream_of_arn(request["StreamConfigurationList"][0]["StreamARN"]), None
    consumer: str | None = request.get("ConsumerName")
    for member in ("ConsumerARN", "ResourceARN", "StreamARN"):
        arn = request.get(member, "")
        parts = consumer_of_arn(arn)
        if parts is not None:
            return parts[0], parts[1]
        if stream_of_arn(arn) is not None:
            return stream_of_arn(arn), consumer
    if "StreamName" in request:
        return request["StreamName"], consumer
    return None, None
