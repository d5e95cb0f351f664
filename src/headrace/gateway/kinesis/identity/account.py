"""The account and region that ARNs name."""

import re
from dataclasses import dataclass
from typing import Final

_CONSUMER: Final = re.compile(
    r"arn:aws[^:]*:kinesis:[^:]*:\d{12}:stream/([\w.-]+)/consumer/([\w.-]+):(\d{1,12})", re.ASCII
)
_CHANNEL: Final = re.compile(r"arn:aws[^:]*:kinesis:[^:]*:\d{12}:channel/([\w.-]+)", re.ASCII)
_STREAM: Final = re.compile(r"arn:aws[^:]*:kinesis:[^:]*:\d{12}:stream/([\w.-]+)", re.ASCII)


@dataclass(frozen=True, slots=True)
class Account:
    """Whose streams these are. A cluster has one account; clients may name any."""

    id: str = "000000000000"
    region: str = "us-east-1"

    def stream_arn(self, name: str) -> str:
        return f"arn:aws:kinesis:{self.region}:{self.id}:stream/{name}"

    def consumer_arn(self, stream: str, consumer: str, created_s: int) -> str:
        return f"{self.stream_arn(stream)}/consumer/{consumer}:{created_s}"

    def channel_arn(self, name: str) -> str:
        return f"arn:aws:kinesis:{self.region}:{self.id}:channel/{name}"


def stream_of_arn(arn: str) -> str | None:
    """Return the stream's name in its ARN."""
    found = _STREAM.fullmatch(arn)
    return None if found is None else found[1]


def consumer_of_arn(arn: str) -> tuple[str, str, int] | None:
    """Return stream, consumer and creation second of a consumer's ARN."""
    found = _CONSUMER.fullmatch(arn)
    return None if found is None else (found[1], found[2], int(found[3]))


def channel_of_arn(arn: str) -> str | None:
    """Return the channel's name in its ARN."""
    found = _CHANNEL.fullmatch(arn)
    return None if found is None else found[1]
