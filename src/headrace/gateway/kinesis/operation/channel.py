"""CreateChannel, DescribeChannel, UpdateChannel, DeleteChannel, ListChannels.

A request is checked and stored; `landing` does the rest. What the service offers and a gateway
cannot do, such as an S3 storage class, is refused with the reason. Only the role and the
bucket's owner are accepted, kept and not checked.
"""

import uuid
from dataclasses import replace
from typing import Any, Final

from headrace.gateway.kinesis.channel.channel_state import (
    ChannelState,
    ChannelStatus,
    RecordFormat,
)
from headrace.gateway.kinesis.channel.key_template import (
    DEFAULT_TEMPLATE,
    check_key,
    check_template,
    error_key,
)
from headrace.gateway.kinesis.error import (
    in_use,
    invalid_argument,
    limit_exceeded,
    not_found,
    validation,
)
from headrace.gateway.kinesis.identity.account import channel_of_arn, stream_of_arn
from headrace.gateway.kinesis.identity.page_token import read_token, write_token
from headrace.gateway.kinesis.protocol.timestamp import Timestamp
from headrace.gateway.kinesis.service import KinesisService, Request, Response
from headrace.gateway.kinesis.stream.stream_state import StreamMode, StreamState

MOST_CHANNELS: Final = 20
"""Of all streams: each one has a buffer in the memory of its gateway."""

_PER_PAGE: Final = 100
_MOST_TAGS: Final = 50
_FRESHNESS: Final = (300, 900)
_DEFAULT_FRESHNESS: Final = 300
_S3: Final = "S3DestinationConfiguration"
_TABLES: Final = "S3TablesDestinationConfiguration"


def create_channel(service: KinesisService, request: Request) -> Response:
    """Announce a channel; it is active when a gateway has found where its records begin."""
    name, now_ms = request["ChannelName"], service.now_ms()
    channel_id = str(uuid.uuid4())
    stream, record_format = _source(service, request)
    destination = _destination(request, stream, name, channel_id)
    freshness = _freshness(service, destination.get("DataFreshnessInSeconds", _DEFAULT_FRESHNESS))
    _refuse_logging(request)
    if "EncryptionConfiguration" in request:
        raise invalid_argument(
            "EncryptionConfiguration is not available: the gateway does not encrypt the files of a "
            "channel; encrypt the bucket or the disk."
        )
    if len(request.get("Tags", {})) > _MOST_TAGS:
        raise invalid_argument(f"A channel has at most {_MOST_TAGS} tags.")
    if not service.lands:
        raise invalid_argument(
            "CreateChannel is not available: this gateway was started without --channels-to "
            "FOLDER, so it has no place for the files."
        )
    exists = in_use(f"Channel {name} under account {service.account.id} already exists.")

    def step(current: ChannelState | None) -> ChannelState:
        if current is not None:
            raise exists
        _check_counts(service, stream)
        return ChannelState(
            name=name,
            id=channel_id,
            created_ms=now_ms,
            status=ChannelStatus.CREATING,
            role=request["ServiceExecutionRoleARN"],
            stream=stream.name,
            stream_created_ms=stream.created_ms,
            record_format=record_format,
            freshness_seconds=freshness,
            storage=destination["StorageConfiguration"],
            dead_letters=destination["DeadLetterQueueS3Configuration"],
            tags=dict(request.get("Tags", {})),
        )

    created = service.channels.change(name, step)
    assert created is not None
    return {"ChannelDescription": _description(service, created)}


def describe_channel(service: KinesisService, request: Request) -> Response:
    return {"ChannelDescription": _description(service, named_channel(service, request))}


def update_channel(service: KinesisService, request: Request) -> Response:
    """Change the freshness, which is all that can be changed."""
    channel = named_channel(service, request)
    if _TABLES in request:
        raise invalid_argument(f"The channel delivers to S3: {_TABLES} does not apply to it.")
    _refuse_logging(request)
    if _S3 not in request and "LoggingConfiguration" not in request:
        raise invalid_argument(f"Specify {_S3} or LoggingConfiguration: there is nothing to update")
    wished = request.get(_S3, {}).get("DataFreshnessInSeconds", channel.freshness_seconds)
    freshness = _freshness(service, wished)

    def step(current: ChannelState | None) -> ChannelState:
        if current is None or current.id != channel.id:
            raise no_channel(request["ChannelARN"])
        if current.status is not ChannelStatus.ACTIVE:
            raise in_use(
                f"Channel {channel.name} under account {service.account.id} not ACTIVE, instead in "
                f"state {current.status}"
            )
        return replace(current, status=ChannelStatus.UPDATING, freshness_seconds=freshness)

    updated = service.channels.change(channel.name, step)
    assert updated is not None
    return {"ChannelDescription": _description(service, updated)}


def delete_channel(service: KinesisService, request: Request) -> Response:
    """Announce the end of a channel. Its files stay."""
    channel = named_channel(service, request)

    def step(current: ChannelState | None) -> ChannelState:
        if current is None or current.id != channel.id:
            raise no_channel(request["ChannelARN"])
        if current.status is ChannelStatus.DELETING:
            return current
        return replace(current, status=ChannelStatus.DELETING)

    service.channels.change(channel.name, step)
    return {}


def list_channels(service: KinesisService, request: Request) -> Response:
    after = ""
    token = request.get("NextToken")
    if token is not None:
        content = read_token(service.store.seal, "ListChannels", token, service.now_ms())
        after = content["after"]
    found = [
        channel
        for name, channel in sorted(service.channels.channels.items())
        if name > after and _is_wished(channel, request.get("StreamFilter"))
    ]
    limit = min(request.get("MaxResults", _PER_PAGE), _PER_PAGE)
    page = found[:limit]
    response: Response = {"ChannelSummaries": [_summary(service, each) for each in page]}
    if len(found) > limit:
        response["NextToken"] = write_token(
            service.store.seal, "ListChannels", {"after": page[-1].name}, service.now_ms()
        )
    return response


def named_channel(service: KinesisService, request: Request) -> ChannelState:
    """Return the channel that ChannelARN names, or ResourceARN.

    Raises:
        ServiceError: there is none.
    """
    arn = request.get("ChannelARN") or request["ResourceARN"]
    channel = service.channels.channels.get(channel_of_arn(arn) or "")
    if channel is None:
        raise no_channel(arn)
    return channel


def no_channel(arn: str) -> Exception:
    return not_found(f"Channel {arn[:300]} not found.")


def _source(service: KinesisService, request: Request) -> tuple[StreamState, RecordFormat]:
    """Return the stream of a new channel and the format of its records."""
    sources = request["StreamConfigurationList"]
    if len(sources) != 1:
        raise invalid_argument("StreamConfigurationList must have one stream.")
    stream = service.served_stream({"StreamARN": sources[0]["StreamARN"]})
    if stream.mode is not StreamMode.ON_DEMAND:
        raise validation(
            f"Stream {stream.name} is in mode PROVISIONED: channels are for ON_DEMAND streams."
        )
    record = sources[0]["RecordConfiguration"]
    if record["RecordFormatType"] == "GSR_JSON" or "GSRSchemaARN" in record:
        raise invalid_argument(
            "GSR_JSON and GSRSchemaARN are for streaming tables: a channel to S3 takes JSON, "
            "STRING or BYTE_ARRAY."
        )
    return stream, RecordFormat(record["RecordFormatType"])


def _destination(
    request: Request, stream: StreamState, name: str, channel_id: str
) -> dict[str, Any]:
    """Return S3DestinationConfiguration with its defaults."""
    if (_S3 in request) == (_TABLES in request):
        raise invalid_argument(f"Specify either {_S3} or {_TABLES}, but not both.")
    if _TABLES in request:
        raise invalid_argument(
            f"{_TABLES} is not available: this gateway writes no Iceberg tables; with {_S3} it "
            "writes Parquet files."
        )
    destination: dict[str, Any] = request[_S3]
    storage = {
        "OutputKeyTemplate": DEFAULT_TEMPLATE,
        "StorageClass": "STANDARD",
        **destination["StorageConfiguration"],
    }
    if storage["StorageClass"] != "STANDARD":
        raise invalid_argument(
            f"StorageClass {storage['StorageClass']} is not available: files are written to "
            "STANDARD; let a lifecycle rule of the bucket move them."
        )
    names = {"channel-name": name, "channel-id": channel_id, "stream-name": stream.name}
    check_template(storage["OutputKeyTemplate"], names)
    dead_letters = {
        "BucketARN": storage["BucketARN"],
        "ExpectedBucketOwner": storage["ExpectedBucketOwner"],
        "ErrorOutputPrefix": f"kinesis-channel-errors/{name}/{channel_id}/",
        **destination.get("DeadLetterQueueS3Configuration", {}),
    }
    check_key(error_key(dead_letters["ErrorOutputPrefix"], names, 0, 0), "ErrorOutputPrefix")
    return {
        **destination,
        "StorageConfiguration": storage,
        "DeadLetterQueueS3Configuration": dead_letters,
    }


def _freshness(service: KinesisService, seconds: int) -> int:
    least, most = _FRESHNESS
    if not service.limits.enabled:
        least = 1
    if not least <= seconds <= most:
        raise invalid_argument(f"DataFreshnessInSeconds must be from {least} to {most}.")
    return seconds


def _refuse_logging(request: Request) -> None:
    if request.get("LoggingConfiguration", {}).get("CloudWatchLogs", {}).get("Enabled"):
        raise invalid_argument(
            "CloudWatch Logs are not available: the gateway writes what channels do to its own log."
        )


def _check_counts(service: KinesisService, stream: StreamState) -> None:
    """Refuse a channel too many."""
    if len(service.channels.channels) >= MOST_CHANNELS:
        raise limit_exceeded(f"An account has at most {MOST_CHANNELS} channels.")
    if service.limits.enabled and service.channels.of(stream.name):
        raise limit_exceeded(f"Stream {stream.name} has a channel to S3: it can have one.")


def _is_wished(channel: ChannelState, filters: list[dict[str, Any]] | None) -> bool:
    if filters is None:
        return True
    for each in filters:
        created = each.get("StreamCreationTimestamp")
        # Clients may have the time in seconds only.
        same = created is None or abs(created.ms - channel.stream_created_ms) < 1000
        if stream_of_arn(each["StreamARN"]) == channel.stream and same:
            return True
    return False


def _stream_fields(service: KinesisService, channel: ChannelState) -> dict[str, Any]:
    return {
        "StreamARN": service.account.stream_arn(channel.stream),
        "StreamCreationTimestamp": Timestamp(channel.stream_created_ms),
    }


def _fields(service: KinesisService, channel: ChannelState) -> dict[str, Any]:
    fields = {
        "ChannelName": channel.name,
        "ChannelARN": service.account.channel_arn(channel.name),
        "ChannelId": channel.id,
        "ChannelStatus": channel.status.value,
        "ChannelCreationTimestamp": Timestamp(channel.created_ms),
    }
    return {**fields, "ChannelStatusReason": channel.reason} if channel.reason else fields


def _summary(service: KinesisService, channel: ChannelState) -> dict[str, Any]:
    return {
        **_fields(service, channel),
        "ChannelDestinationType": "S3",
        "Streams": [_stream_fields(service, channel)],
    }


def _description(service: KinesisService, channel: ChannelState) -> dict[str, Any]:
    record = {"RecordFormatType": channel.record_format.value}
    return {
        **_fields(service, channel),
        "ServiceExecutionRoleARN": channel.role,
        "StreamConfigurationList": [
            {**_stream_fields(service, channel), "RecordConfiguration": record}
        ],
        _S3: {
            "DataFreshnessInSeconds": channel.freshness_seconds,
            "DeadLetterQueueS3Configuration": channel.dead_letters,
            "StorageConfiguration": channel.storage,
        },
        "LoggingConfiguration": {"CloudWatchLogs": {"Enabled": False}},
    }
