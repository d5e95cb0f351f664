"""The count of one tier for a topic and a bucket of time, as a record of the audit topic.

A JSON object: the tier counted `count` more records of `topic` whose timestamps lie in the bucket
that begins at `bucket_ms`. Counts are added up. `instance` and `sequence` together name the count
of a topic and bucket: one that comes twice counts once. The key is the topic's name, so that one
partition has all counts of a topic.
"""

import json
from dataclasses import asdict, dataclass
from typing import Final

TOPIC: Final = "headrace.audit"
DEFAULT_BUCKET_MS: Final = 10 * 60 * 1000
_VERSION: Final = 1
_MOST_NAME_LETTERS: Final = 300


@dataclass(frozen=True, slots=True)
class AuditRecord:
    """One count.

    Attributes:
        tier: where it was counted: `producer`, an agent's or a flow's name.
        length_ms: of the bucket; all tiers of a cluster use the same.
        instance: one counter in one process.
        last_ms: when the tier counted the last of them, by its own clock.
        begins: the tier may have begun in the middle of this bucket, so that a low count here, or
            none before, is no loss.
    """

    tier: str
    topic: str
    bucket_ms: int
    length_ms: int
    count: int
    instance: str
    sequence: int
    last_ms: int
    begins: bool = False

    def encode(self) -> tuple[bytes, bytes]:
        """Return key and value."""
        fields = asdict(self)
        if not self.begins:
            del fields["begins"]
        return self.topic.encode(), json.dumps({"version": _VERSION, **fields}).encode()

    @classmethod
    def decode(cls, value: bytes | None) -> "AuditRecord | None":
        """Return the count in a value, or None for other data: any client may write there."""
        try:
            fields = json.loads(value or b"")
            if fields.get("version") != _VERSION:
                return None
            record = cls(
                tier=_text(fields["tier"]),
                topic=_text(fields["topic"]),
                bucket_ms=_number(fields["bucket_ms"]),
                length_ms=_number(fields["length_ms"]),
                count=_number(fields["count"]),
                instance=_text(fields["instance"]),
                sequence=_number(fields["sequence"]),
                last_ms=_number(fields["last_ms"]),
                begins=fields.get("begins") is True,
            )
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return None
        return record if record.length_ms > 0 and record.count >= 0 else None


def _text(value: object) -> str:
    return str(value)[:_MOST_NAME_LETTERS]


def _number(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or abs(value) > 2**62:
        raise ValueError
    return value
