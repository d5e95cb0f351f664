"""UpdateStreamMode, UpdateStreamWarmThroughput, UpdateStreamRecordDistributionStrategy."""

from typing import Any

from headrace.gateway.kinesis.error import invalid_argument, limit_exceeded, validation
from headrace.gateway.kinesis.service import KinesisService, Request, Response
from headrace.gateway.kinesis.stream.reshard_plan import check_active, plan_uniform
from headrace.gateway.kinesis.stream.stream_state import (
    Distribution,
    StreamMode,
    StreamState,
    StreamStatus,
)


def update_stream_mode(service: KinesisService, request: Request) -> Response:
    """Change who chooses the number of shards. The shards stay as they are."""
    mode = StreamMode(request["StreamModeDetails"]["StreamMode"])
    warm_mibps = checked_warm_mibps(service, mode, request.get("WarmThroughputMiBps"))

    def step(stream: StreamState) -> StreamState:
        check_active(stream, service.account.id)
        if stream.mode is mode:
            raise invalid_argument(f"Stream {stream.name} is in mode {mode} already.")
        if mode is StreamMode.PROVISIONED:
            service.refuse_if_channels(stream, "changed to PROVISIONED")
        stream = service.used(stream, "UpdateStreamMode")
        changes: dict[str, Any] = {"mode": mode, "warm_mibps": warm_mibps}
        if mode is StreamMode.PROVISIONED:
            changes["distribution"] = Distribution.USER_PARTITION_KEY
        return _scaled(service, stream.changed(status=StreamStatus.UPDATING, **changes))

    service.change(request, step)
    return {}


def update_warm_throughput(service: KinesisService, request: Request) -> Response:
    """Make an on-demand stream ready for a load before it comes.

    More shards are opened at once. Shards that are not needed any more are merged later, when the
    traffic has been low enough for a while.
    """
    warm_mibps = checked_warm_mibps(service, StreamMode.ON_DEMAND, request["WarmThroughputMiBps"])

    def step(stream: StreamState) -> StreamState:
        check_active(stream, service.account.id)
        if stream.mode is not StreamMode.ON_DEMAND:
            raise validation(
                f"Stream {stream.name} is in mode PROVISIONED: warm throughput is for ON_DEMAND."
            )
        return _scaled(service, stream.changed(status=StreamStatus.UPDATING, warm_mibps=warm_mibps))

    stream = service.change(request, step)
    return {
        "StreamName": stream.name,
        "StreamARN": service.account.stream_arn(stream.name),
        "WarmThroughput": warm_fields(stream),
    }


def update_distribution(service: KinesisService, request: Request) -> Response:
    """Choose whether records are placed by their keys or evenly. It holds for later records."""
    wish = Distribution(request["RecordDistributionStrategy"])

    def step(stream: StreamState) -> StreamState:
        check_active(stream, service.account.id)
        check_distribution(stream.mode, wish)
        return stream if stream.distribution is wish else stream.changed(distribution=wish)

    service.change(request, step)
    return {}


def check_distribution(mode: StreamMode, distribution: Distribution) -> None:
    """Refuse AUTO for a stream whose user chooses the shards."""
    if distribution is Distribution.AUTO and mode is StreamMode.PROVISIONED:
        raise invalid_argument(
            "RecordDistributionStrategy AUTO is only supported for streams in ON_DEMAND mode."
        )


def checked_warm_mibps(service: KinesisService, mode: StreamMode, wish: int | None) -> int:
    """Return the warm throughput that a request asks for; 0 if it asks for none.

    Raises:
        ServiceError: the stream or the account may not have one, or not so much.
    """
    if wish is None:
        return 0
    if mode is not StreamMode.ON_DEMAND:
        raise validation("WarmThroughputMiBps is only supported for streams in ON_DEMAND mode.")
    if not service.billing_commitment.is_enabled(service.now_ms()):
        raise validation(
            "WarmThroughputMiBps needs MinimumThroughputBillingCommitment: enable it with "
            "UpdateAccountSettings."
        )
    most = service.scaling.most_shards
    if wish > most:
        raise limit_exceeded(f"An on-demand stream has a warm throughput of at most {most} MiBps.")
    return wish


def warm_fields(stream: StreamState) -> dict[str, int]:
    """Return the warm throughput: what is wished, and what the open shards take at once."""
    return {"TargetMiBps": stream.warm_mibps, "CurrentMiBps": len(stream.open_shards)}


def _scaled(service: KinesisService, stream: StreamState) -> StreamState:
    """Announce more shards if the stream has fewer than its warm throughput needs."""
    if stream.mode is StreamMode.PROVISIONED or len(stream.open_shards) >= stream.warm_mibps:
        return stream
    plan = plan_uniform(stream, stream.least_shards, service.now_ms())
    return stream if plan is None else stream.announced(plan)
