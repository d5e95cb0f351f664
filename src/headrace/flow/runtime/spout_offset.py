"""How far a Python spout has emitted, as Spark keeps it in the offsets of a batch.

The offset at the end of a batch has the ids of the batch's tuples. Spark writes it before the batch
runs and its commit after it, so the checkpoint says for every id whether its batch has ended, also
to another process.
"""

import base64
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

MessageId: TypeAlias = str | int | tuple[Any, ...]
"""What a spout calls a tuple by: it is written to the checkpoint, as JSON."""


@dataclass(frozen=True, slots=True)
class SpoutOffset:
    """An end of a batch.

    Attributes:
        spout: the name of the component.
        emitted: how many tuples there were in all batches so far.
        ids: those of the tuples in the batch that ends here, as far as they have one.
    """

    spout: str
    emitted: int = 0
    ids: tuple[MessageId, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {"spout": self.spout, "emitted": self.emitted, "ids": _packed(self.ids)}

    @classmethod
    def from_json(cls, kept: Mapping[str, Any]) -> "SpoutOffset":
        return cls(kept["spout"], int(kept["emitted"]), _unpacked(kept["ids"]))

    @classmethod
    def in_line(cls, line: str) -> "SpoutOffset | None":
        """Return the offset in a line of Spark's log; None if it is of another source."""
        try:
            kept = json.loads(line)
        except ValueError:
            return None
        if not isinstance(kept, dict) or kept.keys() != {"spout", "emitted", "ids"}:
            return None
        return cls.from_json(kept)


def _packed(ids: Sequence[MessageId]) -> str:
    """Return ids as short text: Spark keeps offsets in many places, such as its progress."""
    if not ids:
        return ""
    return base64.b64encode(zlib.compress(json.dumps(ids).encode())).decode()


def _unpacked(text: str) -> tuple[MessageId, ...]:
    if not text:
        return ()
    return tuple(map(_tuples, json.loads(zlib.decompress(base64.b64decode(text)))))


def _tuples(value: Any) -> MessageId:
    """Return an id as it was: JSON has lists where Python has tuples."""
    return tuple(map(_tuples, value)) if isinstance(value, list) else value
