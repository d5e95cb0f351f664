"""PutResourcePolicy, GetResourcePolicy, DeleteResourcePolicy, of streams and their consumers."""

from dataclasses import replace

from headrace.gateway.kinesis.access.policy import check_policy
from headrace.gateway.kinesis.error import ServiceError, invalid_argument, not_found
from headrace.gateway.kinesis.identity.account import consumer_of_arn
from headrace.gateway.kinesis.operation.consumer import named_consumer
from headrace.gateway.kinesis.service import KinesisService, Request, Response
from headrace.gateway.kinesis.stream.stream_state import StreamState


def put_resource_policy(service: KinesisService, request: Request) -> Response:
    text = request["Policy"]
    check_policy(text, _resource(service, request))
    _change(service, request, text)
    return {}


def _resource(service: KinesisService, request: Request) -> str:
    """Return the ARN of what a request names, as `authorize` compares it."""
    arn = request["ResourceARN"]
    _refuse_channel(arn)
    if consumer_of_arn(arn) is None:
        return service.account.stream_arn(service.stream(request).name)
    stream, consumer = named_consumer(service, {"ConsumerARN": arn})
    return service.account.consumer_arn(stream.name, consumer.name, consumer.created_ms // 1000)


def get_resource_policy(service: KinesisService, request: Request) -> Response:
    arn = request["ResourceARN"]
    _refuse_channel(arn)
    if consumer_of_arn(arn) is None:
        text = service.stream(request).policy
    else:
        text = named_consumer(service, {"ConsumerARN": arn})[1].policy
    if not text:
        raise _no_policy(arn)
    return {"Policy": text}


def delete_resource_policy(service: KinesisService, request: Request) -> Response:
    _change(service, request, "")
    return {}


def _change(service: KinesisService, request: Request, text: str) -> None:
    arn = request["ResourceARN"]
    _refuse_channel(arn)
    named = None
    if consumer_of_arn(arn) is not None:
        named = named_consumer(service, {"ConsumerARN": arn})[1]

    def step(stream: StreamState) -> StreamState:
        if named is None:
            if not stream.policy and not text:
                raise _no_policy(arn)
            return stream.changed(policy=text)
        known = next((each for each in stream.consumers if each.name == named.name), None)
        if known is None or known.created_ms != named.created_ms:
            raise not_found(f"Consumer {named.name} of stream {stream.name} not found.")
        if not known.policy and not text:
            raise _no_policy(arn)
        consumers = tuple(
            replace(each, policy=text) if each is known else each for each in stream.consumers
        )
        return stream.changed(consumers=consumers)

    service.change(request, step)


def _refuse_channel(arn: str) -> None:
    if ":channel/" in arn:
        raise invalid_argument("A channel has no policy here: the own account alone uses channels.")


def _no_policy(arn: str) -> ServiceError:
    return not_found(f"No resource policy found for resource ARN {arn[:300]}.")
