"""The offsets and changelog ends that a checkpoint began with, in a file of the checkpoint.

Spark repeats a first batch that a crash interrupted. It must begin with the same offsets and stores
again, although its output, changelog records included, may be committed already.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from headrace.flow.error import FlowError
from headrace.flow.storage.file_store import FileStore

_FILE = "samza.json"


@dataclass(frozen=True, slots=True)
class CheckpointStart:
    """What a checkpoint began with.

    Attributes:
        changelog_ends: by store and partition.
        offsets: by `system.topic` and partition.
    """

    changelog_ends: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    offsets: Mapping[str, Mapping[int, int]] = field(default_factory=dict)

    @classmethod
    def read(cls, checkpoint: FileStore) -> "CheckpointStart | None":
        """Return what a checkpoint began with; None if it has not begun."""
        try:
            kept = json.loads(checkpoint.read(_FILE))
            return cls(*({k: _numbers(v) for k, v in kept[name].items()} for name in _NAMES))
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, AttributeError) as error:
            raise FlowError(
                f"{checkpoint.text}/{_FILE} cannot be read: {error}; is it a checkpoint's?"
            ) from error

    def write(self, checkpoint: FileStore) -> None:
        """Write the file, durably and atomically. Call it before the first batch."""
        checkpoint.write(_FILE, json.dumps(asdict(self)).encode())


_NAMES = ("changelog_ends", "offsets")


def _numbers(kept: Mapping[str, int]) -> dict[int, int]:
    return {int(key): int(value) for key, value in kept.items()}
