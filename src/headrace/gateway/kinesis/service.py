"""What all operations share: the streams, the log, the limits and the clock."""

import time
from collections.abc import Callable, Generator, Sequence
from typing import Any, Final

import structlog

from headrace.gateway.kinesis.access.policy import Principal
from headrace.gateway.kinesis.access.signature import unknown_key
from headrace.gateway.kinesis.access.watched_keys import KeySet, WatchedKeys
from headrace.gateway.kinesis.channel.channel_state import ChannelStatus
from headrace.gateway.kinesis.channel.delivery_metrics import DeliveryMetrics
from headrace.gateway.kinesis.error import in_use, invalid_argument, not_found
from headrace.gateway.kinesis.identity.account import consumer_of_arn, stream_of_arn
from headrace.gateway.kinesis.limit.shard_limits import ShardLimits
from headrace.gateway.kinesis.limit.shard_metrics import ShardMetrics
from headrace.gateway.kinesis.protocol.base64_column import warm_up
from headrace.gateway.kinesis.record.plain_topics import PlainTopics
from headrace.gateway.kinesis.record.row import StoredRow
from headrace.gateway.kinesis.record.shard_reader import ShardReader
from headrace.gateway.kinesis.record.shard_writer import ShardWriter
from headrace.gateway.kinesis.scaler import Scaler
from headrace.gateway.kinesis.settings import KinesisSettings
from headrace.gateway.kinesis.store.channel_store import ChannelStore
from headrace.gateway.kinesis.store.stream_keeper import StreamKeeper
from headrace.gateway.kinesis.store.stream_store import StreamStore
from headrace.gateway.kinesis.store.stream_topic import ACCOUNT_NAME
from headrace.gateway.kinesis.stream.billing_commitment import BillingCommitment
from headrace.gateway.kinesis.stream.stream_state import StreamState, StreamStatus
from headrace.gateway.kinesis.stream_cipher import OpenedRows, StreamCiphers
from headrace.gateway.kinesis.wait import Wait
from headrace.telemetry.metrics_endpoint import MetricsEndpoint
from headrace.telemetry.reading import Reading

log = structlog.get_logger()

Request = dict[str, Any]
Response = dict[str, Any]
Steps = Generator[Wait, None, Response]
"""An operation that waits without a thread."""

Operation = Callable[["KinesisService", Request], Response | Steps]

_REFRESH_SECONDS: Final = 5.0


class KinesisService:
    """One instance. Operations are functions of it and a checked request.

    Threads: any. `start` and `stop` frame its life.
    """

    def __init__(self, settings: KinesisSettings) -> None:
        self.account = settings.account
        self.keys = WatchedKeys(
            KeySet(settings.keys or None, settings.principals), settings.key_file
        )
        self.store = StreamStore(settings.client)
        self.channels = ChannelStore(self.store)
        self.lands = settings.channels_to is not None
        self.delivery = DeliveryMetrics()
        self.keeper = StreamKeeper(settings.client, self.store)
        self.writer = ShardWriter(settings.client)
        self.reader = ShardReader(settings.client)
        self.limits = ShardLimits(enabled=settings.limits)
        self.plain = PlainTopics(settings.client, settings.expose)
        self.metrics = ShardMetrics()
        self._metrics_endpoint = (
            None
            if settings.metrics is None
            else MetricsEndpoint(
                settings.metrics.host,
                settings.metrics.port,
                self._readings,
                owner="the Kinesis gateway",
            )
        )
        self.store.tail.listen(self.writer.wake)
        self.ciphers = StreamCiphers(settings.master_keys)
        self.scaling = settings.scaling
        self._scaler = Scaler(settings.scaling, self.store, self.keeper, self.reader)
        self.demand = self._scaler.demand

    def start(self) -> None:
        """Read the streams and begin to serve.

        Raises:
            ClientError: no broker can be reached.
        """
        warm_up()
        self.keys.start()
        self.store.start()
        _ = self.store.seal
        self.keeper.start()
        self.writer.start()
        self._scaler.start()
        if self._metrics_endpoint is not None:
            self._metrics_endpoint.start()
            log.info("kinesis_metrics_served", url=self._metrics_endpoint.url)

    def stop(self) -> None:
        """End. No operation may run any more."""
        if self._metrics_endpoint is not None:
            self._metrics_endpoint.close()
        self.keys.stop()
        self._scaler.stop()
        self.writer.stop()
        self.reader.close()
        self.keeper.stop()
        self.store.stop()

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def _readings(self) -> list[Reading]:
        return [*self.metrics.readings(self._enabled), *self.delivery.readings()]

    def _enabled(self, name: str) -> tuple[str, ...]:
        stream = self.store.streams.get(name)
        return () if stream is None else stream.metrics

    @property
    def metrics_url(self) -> str | None:
        """Where Prometheus finds the figures, if anywhere."""
        return None if self._metrics_endpoint is None else self._metrics_endpoint.url

    @property
    def billing_commitment(self) -> BillingCommitment:
        return BillingCommitment.from_json(self.store.documents.get(ACCOUNT_NAME))

    def principal(self, access_key: str | None) -> Principal:
        """Return who an access key is; without keys, everyone is the account's owner.

        Raises:
            ServiceError: the key was taken away since the signature was checked.
        """
        own = f"arn:aws:iam::{self.account.id}"
        if access_key is None:
            return Principal(f"{own}:root")
        secrets, principals = self.keys.current
        if secrets is not None and access_key not in secrets:
            raise unknown_key()
        return Principal(principals.get(access_key, f"{own}:user/{access_key}"))

    def stream_name(self, request: Request) -> str:
        """Return the name in StreamName, StreamARN, ResourceARN or ConsumerARN.

        Raises:
            ServiceError: there is none, or two that differ.
        """
        names = [request["StreamName"]] if "StreamName" in request else []
        if "StreamARN" in request:
            names.append(_stream_in(request["StreamARN"]))
        if "ResourceARN" in request:
            arn = request["ResourceARN"]
            names.append(stream_of_arn(arn) or _consumer_stream(arn))
        if not names:
            raise invalid_argument("Either StreamName or StreamARN must be provided.")
        if len(set(names)) > 1:
            raise invalid_argument("StreamName does not match the stream of StreamARN.")
        found: str = names[0]
        return found

    def stream(self, request: Request) -> StreamState:
        """Return the stream that a request names.

        Raises:
            ServiceError: it does not exist.
        """
        name = self.stream_name(request)
        found = self.store.streams.get(name)
        if found is None and self.plain.matches(name):
            found = self.plain.streams().get(name)
        if found is None:
            raise self.no_stream(name)
        return found

    def served_stream(self, request: Request) -> StreamState:
        """Return the stream that a request names, if records can be put and read."""
        stream = self.stream(request)
        if stream.status not in (StreamStatus.ACTIVE, StreamStatus.UPDATING):
            raise self.no_stream(stream.name)
        return stream

    def opened(self, stream: StreamState, rows: Sequence[StoredRow]) -> OpenedRows:
        """Return rows of a stream with their data, up to the first one that cannot be decrypted.

        Raises:
            ServiceError: the stream's keys cannot be read in time.
        """
        if stream.plain:
            return OpenedRows(list(rows))
        return self.ciphers.opened(
            rows,
            lambda: self.store.streams.get(stream.name, stream),
            lambda: self.store.tail.refresh(_REFRESH_SECONDS),
        )

    def no_stream(self, name: str) -> Exception:
        return not_found(f"Stream {name} under account {self.account.id} not found.")

    def used(self, stream: StreamState, operation: str) -> StreamState:
        """Count an operation that has a limit per day, unless there are no limits.

        Raises:
            ServiceError: it was used too often.
        """
        return stream.used(operation, self.now_ms()) if self.limits.enabled else stream

    def refuse_if_channels(self, stream: StreamState, what: str) -> None:
        """Refuse a change of a stream that its channels would not survive.

        Raises:
            ServiceError: it has channels.
        """
        for each in self.channels.of(stream.name):
            if each.is_of(stream) and each.status is not ChannelStatus.DELETING:
                raise in_use(
                    f"Stream {stream.name} under account {self.account.id} has the channel "
                    f"{each.name}: it cannot be {what}."
                )

    def change(self, request: Request, step: Callable[[StreamState], StreamState]) -> StreamState:
        """Change the stream that a request names.

        Raises:
            ServiceError: it does not exist, is a plain topic, or `step` refuses.
        """
        name = self.stream_name(request)

        def known(stream: StreamState | None) -> StreamState:
            if stream is None:
                if self.plain.matches(name) and name in self.plain.streams():
                    raise invalid_argument(
                        f"Stream {name} is a plain Kafka topic: change it with Kafka's tools."
                    )
                raise self.no_stream(name)
            return step(stream)

        changed = self.keeper.change(name, known)
        assert changed is not None
        return changed


def _stream_in(arn: str) -> str:
    found = stream_of_arn(arn)
    if found is None:
        raise invalid_argument(f"{arn[:200]} is no ARN of a stream.")
    return found


def _consumer_stream(arn: str) -> str:
    found = consumer_of_arn(arn)
    if found is None:
        raise invalid_argument(f"{arn[:200]} is no ARN of a stream.")
    return found[0]
