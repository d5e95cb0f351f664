"""Who counts, in buckets of which length, and where the counts go."""

from dataclasses import dataclass

from headrace.audit.record import DEFAULT_BUCKET_MS, TOPIC
from headrace.model.error import InvalidArgument


@dataclass(frozen=True, slots=True)
class AuditTarget:
    """The tier, bucket length and topic that a reader counts for.

    It pickles, so that Spark tasks can have it.
    """

    tier: str
    bucket_ms: int = DEFAULT_BUCKET_MS
    topic: str = TOPIC

    def __post_init__(self) -> None:
        if not self.tier or not self.topic or self.bucket_ms < 1:
            raise InvalidArgument(
                "an audit has a tier's name, a topic for the counts, and buckets of at least 1 ms"
            )
