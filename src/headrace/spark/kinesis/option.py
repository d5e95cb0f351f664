"""The options of the format `kinesis`: the names of AWS's own connector for Spark.

Rule 1: names and defaults are those of the connector `aws-kinesis`
(awslabs/spark-sql-kinesis-connector), so that options can be copied as they are. What only tunes
the connector's own store of positions is accepted and ignored: here Spark's checkpoint has them.
Rule 2: an option that would change what is read or written, and is not supported, is an error.
Rule 3: the secret is in no text: not in an error, a log line or a `repr`.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from headrace.model.error import ConfigError
from headrace.spark.kinesis.position import TRIM_HORIZON, Position, at_timestamp
from headrace.spark.option_text import OptionText, wrong

FAIL_ON_DATA_LOSS: Final = "kinesis.failOnDataLoss"
_CONNECTION: Final = {
    "kinesis.streamName": "The stream. Required.",
    "kinesis.endpointUrl": "Where the API is; without it AWS's own, of the region.",
    "kinesis.region": "The region; without it what the endpoint's name or the environment says.",
    "kinesis.kinesisRegion": "The region of the stream, if it differs from kinesis.region.",
    "kinesis.awsAccessKeyId": "The access key; without it botocore's own chain of credentials.",
    "kinesis.awsSecretKey": "Its secret.",
    "kinesis.clientNumRetries": "How often a request is retried: 5.",
    "kinesis.clientRetryIntervalsMs": "How long to wait before the first retry: 1000.",
    "kinesis.clientMaxRetryIntervalMs": "How long to wait at most: 10000.",
}
SOURCE_OPTIONS: Final = _CONNECTION | {
    "kinesis.startingPosition": "LATEST (a stream's default), TRIM_HORIZON (a batch's), EARLIEST, "
    "or AT_TIMESTAMP 2026-08-30T19:00:05Z.",
    "kinesis.consumerType": "GetRecords, the only one supported.",
    FAIL_ON_DATA_LOSS: "Whether records that are gone fail the query: false.",
    "kinesis.maxFetchRecordsPerShard": "Records of a shard per micro-batch: 100000.",
    "kinesis.maxFetchTimePerShardSec": "How long a micro-batch collects records: 10.",
    "kinesis.maxFetchBytes": "Bytes of all shards per micro-batch, about: 33554432. Not an option "
    "of the connector.",
    "kinesis.describeShardInterval": "How often at most shards are listed: 1s.",
    "kinesis.checkNewRecordThreads": "How many shards the driver reads at once: 8.",
    "kinesis.getRecords.numberOfRecordsPerFetch": "Records per GetRecords: 10000.",
    "kinesis.getRecords.fetchIntervalMs": "Time between two GetRecords of a shard: 200.",
}
"""Every option of the source, and what it means. The errors and `docs/kinesis.md` follow it."""

SINK_OPTIONS: Final = dict(_CONNECTION)
"""Every option of the sink."""

_IGNORED: Final = (
    "kinesis.minBatchesToRetain",
    "kinesis.metadataCommitterType",
    "kinesis.metadataPath",
    "kinesis.metadataNumRetries",
    "kinesis.metadataRetryIntervalsMs",
    "kinesis.metadataMaxRetryIntervalMs",
    "kinesis.dynamodb.tableName",
    "kinesis.subscribeToShard.timeoutSec",
    "kinesis.subscribeToShard.maxRetries",
    "kinesis.sink.flushWaitTimeMs",
    "kinesis.sink.recordMaxBufferedTimeMs",
    "kinesis.sink.maxConnections",
    "kinesis.sink.recordTtl",
)
_PROFILE: Final = "use a profile of ~/.aws/config with role_arn, and name it in AWS_PROFILE"
_REFUSED: Final = {
    "kinesis.stsRoleArn": _PROFILE,
    "kinesis.stsSessionName": _PROFILE,
    "kinesis.stsEndpointUrl": _PROFILE,
    "kinesis.credentialProviderClass": "it names a Java class; " + _PROFILE,
    "kinesis.credentialProviderParam": "it is for a Java class; " + _PROFILE,
    "kinesis.consumerName": "only consumerType GetRecords is, which has no name",
}
_AWS_HOST: Final = re.compile(r"(?:^|\.)kinesis(?:-fips)?\.([a-z0-9-]+)\.(?:amazonaws|api\.aws)")
_URL: Final = re.compile(r"https?://[^\s/@]+/?")
_STREAM_NAME: Final = re.compile(r"[a-zA-Z0-9_.-]{1,128}")
_DEFAULT_REGION: Final = "us-east-1"
_DAY_MS: Final = 86_400_000


@dataclass(frozen=True, slots=True, kw_only=True)
class KinesisConnection:
    """Which stream, where, and with which key. It pickles: Spark sends it to tasks.

    Attributes:
        region: None leaves it to the environment of the process that connects.
    """

    stream: str
    endpoint_url: str | None
    region: str | None
    access_key: str | None = field(repr=False)
    secret_key: str | None = field(repr=False)
    retries: int
    retry_ms: int
    max_retry_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class KinesisSourceOptions:
    """The options of one source, typed.

    Attributes:
        starting: where each shard begins; None is LATEST.
    """

    connection: KinesisConnection
    starting: Position | None
    fail_on_data_loss: bool
    max_records: int
    max_bytes: int
    max_seconds: float
    list_interval_seconds: float
    threads: int
    records_per_fetch: int
    fetch_interval_seconds: float


def read_source_options(options: Mapping[str, str], *, streaming: bool) -> KinesisSourceOptions:
    """Parse what a user wrote.

    Raises:
        ConfigError: names the wrong option, and what to write instead.
    """
    texts = _texts(options, SOURCE_OPTIONS)
    if texts.choice("kinesis.consumerType", "GetRecords", ("GetRecords", "SubscribeToShard")) != (
        "GetRecords"
    ):
        raise ConfigError(
            "option kinesis.consumerType cannot be SubscribeToShard yet: leave it out, or write"
            " GetRecords"
        )
    starting = _starting(texts.get("kinesis.startingPosition"), streaming=streaming)
    if starting is None and not streaming:
        raise ConfigError(
            "kinesis.startingPosition cannot be LATEST in a batch query: write TRIM_HORIZON or"
            " AT_TIMESTAMP 2026-08-30T19:00:05Z"
        )
    return KinesisSourceOptions(
        connection=_connection(texts),
        starting=starting,
        fail_on_data_loss=texts.boolean(FAIL_ON_DATA_LOSS, False),
        max_records=_number(texts, "kinesis.maxFetchRecordsPerShard", 100_000, 1, 10_000_000),
        max_bytes=_number(texts, "kinesis.maxFetchBytes", 32 * 1024 * 1024, 1, 2**30),
        max_seconds=_number(texts, "kinesis.maxFetchTimePerShardSec", 10, 1, 3_600),
        list_interval_seconds=min(
            texts.duration_ms("kinesis.describeShardInterval", 1_000), _DAY_MS
        )
        / 1_000,
        threads=_number(texts, "kinesis.checkNewRecordThreads", 8, 1, 64),
        records_per_fetch=_number(
            texts, "kinesis.getRecords.numberOfRecordsPerFetch", 10_000, 1, 10_000
        ),
        fetch_interval_seconds=_number(texts, "kinesis.getRecords.fetchIntervalMs", 200, 0, 60_000)
        / 1_000,
    )


def read_sink_options(options: Mapping[str, str]) -> KinesisConnection:
    """Parse what a user wrote.

    Raises:
        ConfigError: names the wrong option, and what to write instead.
    """
    texts = _texts(options, SINK_OPTIONS)
    if texts.boolean("kinesis.sink.aggregationEnabled", False):
        raise ConfigError(
            "option kinesis.sink.aggregationEnabled cannot be true: rows are written one record"
            " each"
        )
    return _connection(texts)


def _texts(options: Mapping[str, str], known: Mapping[str, str]) -> OptionText:
    texts = OptionText(options)
    for name, instead in _REFUSED.items():
        if name in texts:
            raise ConfigError(f"option {name} is not supported: {instead}")
    names = (*known, *_IGNORED, "kinesis.sink.aggregationEnabled")
    texts.reject_unknown(names, format_name="kinesis")
    return texts


def _connection(texts: OptionText) -> KinesisConnection:
    stream = texts.get("kinesis.streamName")
    if not stream:
        raise ConfigError("set the option kinesis.streamName to the name of the stream")
    if not _STREAM_NAME.fullmatch(stream):
        raise wrong("kinesis.streamName", stream, "write up to 128 letters, digits and _.-")
    endpoint = texts.get("kinesis.endpointUrl")
    if endpoint is not None and not _URL.fullmatch(endpoint):
        # The text is not shown: people write keys into URLs.
        raise ConfigError("option kinesis.endpointUrl must look like https://host:port")
    access, secret = texts.get("kinesis.awsAccessKeyId"), texts.get("kinesis.awsSecretKey")
    if (access is None) != (secret is None):
        raise ConfigError("set both kinesis.awsAccessKeyId and kinesis.awsSecretKey, or neither")
    retry_ms = _number(texts, "kinesis.clientRetryIntervalsMs", 1_000, 1, 600_000)
    return KinesisConnection(
        stream=stream,
        endpoint_url=endpoint,
        region=_region(texts, endpoint),
        access_key=access,
        secret_key=secret,
        retries=_number(texts, "kinesis.clientNumRetries", 5, 0, 1_000),
        retry_ms=retry_ms,
        max_retry_ms=max(
            retry_ms, _number(texts, "kinesis.clientMaxRetryIntervalMs", 10_000, 1, 600_000)
        ),
    )


def _region(texts: OptionText, endpoint: str | None) -> str | None:
    named = texts.get("kinesis.kinesisRegion") or texts.get("kinesis.region")
    if named is not None or endpoint is None:
        return named
    found = _AWS_HOST.search(endpoint.partition("//")[2])
    return found[1] if found else _DEFAULT_REGION


def _starting(text: str | None, *, streaming: bool) -> Position | None:
    if text is None:
        return None if streaming else TRIM_HORIZON
    word, _, moment = text.partition(" ")
    match word.upper():
        case "LATEST" if not moment:
            return None
        case "TRIM_HORIZON" | "EARLIEST" if not moment:
            return TRIM_HORIZON
        case "AT_TIMESTAMP":
            return at_timestamp(_milliseconds(text, moment.strip()))
    raise wrong(
        "kinesis.startingPosition",
        text,
        "write LATEST, TRIM_HORIZON, EARLIEST or AT_TIMESTAMP 2026-08-30T19:00:05Z",
    )


def _milliseconds(text: str, moment: str) -> int:
    try:
        parsed = datetime.fromisoformat(moment)
    except ValueError:
        parsed = None
    if parsed is None or parsed.tzinfo is None or parsed.timestamp() < 0:
        raise wrong("kinesis.startingPosition", text, "write the time as in 2026-08-30T19:00:05Z")
    return int(parsed.timestamp() * 1_000)


def _number(texts: OptionText, name: str, default: int, lowest: int, highest: int) -> int:
    found = texts.number(name, lowest, highest)
    return default if found is None else found
