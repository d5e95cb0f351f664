"""The calls of the Kinesis API that the source and the sink make, through botocore.

Rule 1: a request that fails for a while is retried with growing delays: throttling, an error of the
service, a lost connection. GetRecords is not retried when it is throttled, because its caller has
other shards to read meanwhile.
Rule 2: errors carry the service's code and message, and nothing of the request.

Threads: a client may be used by several.
"""

import logging
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime
from functools import lru_cache
from typing import Any, Final

from headrace.model.error import ConfigError, HeadraceError
from headrace.spark.kinesis.option import KinesisConnection
from headrace.spark.kinesis.position import Position, iterator_request
from headrace.spark.kinesis.shard_graph import Shard

_LOG = logging.getLogger("headrace.spark")
_THROTTLED: Final = frozenset(
    {
        "ProvisionedThroughputExceededException",
        "LimitExceededException",
        "KMSThrottlingException",
        "ThrottlingException",
        "Throttling",
    }
)
_CONNECT_SECONDS: Final = 10
_READ_SECONDS: Final = 60
_CONNECTIONS: Final = 64


class KinesisFault(HeadraceError):
    """The service refused a request, or could not be reached.

    Attributes:
        code: the service's name of the error; empty if it did not answer.
    """

    def __init__(self, message: str, code: str = "", *, may_pass: bool = False) -> None:
        super().__init__(message)
        self.code = code
        self.may_pass = may_pass

    @property
    def is_throttling(self) -> bool:
        """Whether a limit was exceeded: a later request will succeed."""
        return self.code in _THROTTLED


@dataclass(frozen=True, slots=True)
class Page:
    """The answer of one GetRecords.

    Attributes:
        records: as botocore returns them.
        next_iterator: None at the end of a closed shard.
        behind_ms: how far the page's end is from the end of the shard; 0 at the end.
    """

    records: Sequence[Mapping[str, Any]]
    next_iterator: str | None
    behind_ms: int


class Backoff:
    """Delays that double, each with a random share, so that clients do not retry in step."""

    def __init__(self, first_ms: int, most_ms: int) -> None:
        self._first_ms, self._most_ms = first_ms, most_ms
        self._next_ms = first_ms

    def next_seconds(self) -> float:
        """Return how long to wait now."""
        delay_ms = self._next_ms
        self._next_ms = min(self._most_ms, 2 * delay_ms)
        return delay_ms * random.uniform(0.5, 1.0) / 1_000

    def reset(self) -> None:
        """Begin again with the first delay, after a success."""
        self._next_ms = self._first_ms


class KinesisClient:
    """The stream of one connection.

    Args:
        service: botocore's client; by default one for the connection.
    """

    def __init__(
        self,
        connection: KinesisConnection,
        service: Any = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._connection = connection
        self._service = service or _botocore_client(connection)
        self._sleep = sleep
        self._name: dict[str, Any] = {"StreamName": connection.stream}

    def created(self) -> str:
        """Return when the stream was created: a later one of its name has another time."""
        answer = self._call("describe_stream_summary", **self._name)
        moment = answer["StreamDescriptionSummary"]["StreamCreationTimestamp"].astimezone(UTC)
        return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1_000:03}Z"

    def list_shards(self) -> tuple[list[Shard], int]:
        """Return all shards, open and closed, and the service's time in milliseconds.

        The time is rounded down: no record that comes later has an earlier one.
        """
        answer = self._call("list_shards", **self._name)
        now_ms = _time_ms(answer)
        found = list(answer["Shards"])
        while token := answer.get("NextToken"):
            answer = self._call("list_shards", NextToken=token)
            found += answer["Shards"]
        return [_shard(each) for each in found], now_ms

    def shard_iterator(self, shard: str, position: Position, *, with_last: bool = False) -> str:
        """Return an iterator at a position, or before the last record that was read."""
        where = iterator_request(position, with_last=with_last)
        answer = self._call("get_shard_iterator", **self._name, ShardId=shard, **where)
        return str(answer["ShardIterator"])

    def get_records(self, iterator: str, limit: int) -> Page:
        """Return the next records.

        Raises:
            KinesisFault: also when throttled, at once.
        """
        answer = self._call(
            "get_records", waits_for_limits=False, ShardIterator=iterator, Limit=limit
        )
        behind_ms = int(answer.get("MillisBehindLatest") or 0)
        return Page(answer["Records"], answer.get("NextShardIterator"), behind_ms)

    def put_records(self, entries: Sequence[Mapping[str, Any]]) -> list[str | None]:
        """Put records; return for each the code of its error, or None."""
        answer = self._call("put_records", **self._name, Records=list(entries))
        return [each.get("ErrorCode") for each in answer["Records"]]

    def backoff(self) -> Backoff:
        """Return new delays, as the options set them."""
        return Backoff(self._connection.retry_ms, self._connection.max_retry_ms)

    @property
    def retries(self) -> int:
        """How often to retry."""
        return self._connection.retries

    def _call(self, operation: str, *, waits_for_limits: bool = True, **arguments: Any) -> Any:
        backoff = self.backoff()
        for left in range(self._connection.retries, -1, -1):
            try:
                return self._once(operation, arguments)
            except KinesisFault as fault:
                passes = waits_for_limits if fault.is_throttling else fault.may_pass
                if not passes or not left:
                    raise
                delay = backoff.next_seconds()
                _LOG.info(
                    "kinesis_retry operation=%s error=%r delay=%.3f", operation, str(fault), delay
                )
                self._sleep(delay)
        raise AssertionError("unreachable")

    def _once(self, operation: str, arguments: Mapping[str, Any]) -> Any:
        from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError, NoRegionError
        from botocore.exceptions import ConnectionError as LostConnection

        where = f"{self._connection.stream}: {operation}"
        try:
            return getattr(self._service, operation)(**arguments)
        except ClientError as error:
            said = error.response.get("Error", {})
            code = str(said.get("Code", ""))
            status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
            message = f"{where}: {code}: {said.get('Message', '')}"
            raise KinesisFault(message, code, may_pass=status >= 500) from None
        except NoRegionError:
            raise ConfigError("set the option kinesis.region, or AWS_DEFAULT_REGION") from None
        except (HTTPClientError, LostConnection) as error:
            raise KinesisFault(f"{where}: {error}", may_pass=True) from None
        except BotoCoreError as error:
            raise KinesisFault(f"{where}: {error}") from None


@lru_cache(maxsize=4)
def kinesis_client(connection: KinesisConnection) -> KinesisClient:
    """Return the client of a connection. A Python worker keeps it for its next task."""
    return KinesisClient(connection)


def _botocore_client(connection: KinesisConnection) -> Any:
    try:
        from botocore.config import Config
        from botocore.exceptions import NoRegionError
        from botocore.session import get_session
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"the format kinesis needs {error.name} on the driver and on every executor:"
            " pip install 'headrace[spark,kinesis]'"
        ) from error
    try:
        return get_session().create_client(
            "kinesis",
            region_name=connection.region,
            endpoint_url=connection.endpoint_url,
            aws_access_key_id=connection.access_key,
            aws_secret_access_key=connection.secret_key,
            config=Config(
                connect_timeout=_CONNECT_SECONDS,
                read_timeout=_READ_SECONDS,
                max_pool_connections=_CONNECTIONS,
                # Retried here, where the options decide how often.
                retries={"mode": "standard", "total_max_attempts": 1},
            ),
        )
    except NoRegionError:
        raise ConfigError("set the option kinesis.region, or AWS_DEFAULT_REGION") from None


def _shard(listed: Mapping[str, Any]) -> Shard:
    parents = (listed.get("ParentShardId"), listed.get("AdjacentParentShardId"))
    return Shard(
        listed["ShardId"],
        tuple(each for each in parents if each is not None),
        is_open="EndingSequenceNumber" not in listed["SequenceNumberRange"],
        start=str(listed["SequenceNumberRange"].get("StartingSequenceNumber", "")),
    )


def _time_ms(answer: Mapping[str, Any]) -> int:
    date = answer.get("ResponseMetadata", {}).get("HTTPHeaders", {}).get("date")
    moment = time.time() if date is None else parsedate_to_datetime(date).timestamp()
    return int(moment) * 1_000
