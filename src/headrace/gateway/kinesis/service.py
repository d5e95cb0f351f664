"""What all operations share: the streams, the log, the limits and the clock."""

import time
from collections.abc import Callable, Generator
from typing import Any

from headrace.gateway.kinesis.error import invalid_argument, not_found
from headrace.gateway.kinesis.identity.account import consumer_of_arn, stream_of_arn
from headrace.gateway.kinesis.limit.shard_limits import ShardLimits
from headrace.gateway.kinesis.record.plain_topics import PlainTopics
from headrace.gateway.kinesis.record.shard_reader import ShardReader
from headrace.gateway.kinesis.record.shard_writer import ShardWriter
from headrace.gateway.kinesis.settings import KinesisSettings
from headrace.gateway.kinesis.store.stream_keeper import StreamKeeper
from headrace.gateway.kinesis.store.stream_store import StreamStore
from headrace.gateway.kinesis.stream.stream_state import StreamState, StreamStatus
from headrace.gateway.kinesis.wait import Wait

Request = dict[str, Any]
Response = dict[str, Any]
Steps = Generator[Wait, None, Response]
"""An operation that waits without a thread."""

Operation = Callable[["KinesisService", Request], Response | Steps]


class KinesisService:
    """One instance. Operations are functions of it and a checked request.

    Threads: any. `start` and `stop` frame its life.
    """

    def __init__(self, settings: KinesisSettings) -> None:
        self.account = settings.account
        self.store = StreamStore(settings.client)
        self.keeper = StreamKeeper(settings.client, self.store)
        self.writer = ShardWriter(settings.client)
        self.reader = ShardReader(settings.client)
        self.limits = ShardLimits(enabled=settings.limits)
        self.plain = PlainTopics(settings.client, settings.expose)

    def start(self) -> None:
        """Read the streams and begin to serve.

        Raises:
            ClientError: no broker can be reached.
        """
        self.store.start()
        _ = self.store.seal
        self.keeper.start()
        self.writer.start()

    def stop(self) -> None:
        """End. No operation may run any more."""
        self.writer.stop()
        self.reader.close()
        self.keeper.stop()
        self.store.stop()

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def stream_name(self, request: Request) -> str:
        """Return the name in StreamName, StreamARN, ResourceARN or ConsumerARN.

        Raises:
            ServiceError: there is none, or two that differ.
        """
        names = [request["StreamName"]] if "StreamName" in request else []
        for member in ("StreamARN", "ResourceARN"):
            arn = request.get(member)
            if arn is not None:
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

    def no_stream(self, name: str) -> Exception:
        return not_found(f"Stream {name} under account {self.account.id} not found.")

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


def _consumer_stream(arn: str) -> str:
    found = consumer_of_arn(arn)
    if found is None:
        raise invalid_argument(f"{arn[:200]} is no ARN of a stream.")
    return found[0]
