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
        tasks: the number of tasks of each component that has a state, for an application. Their
            order is that of the slots by which Spark keeps the state.
    """

    changelog_ends: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    offsets: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    tasks: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def read(cls, checkpoint: FileStore) -> "CheckpointStart | None":
        """Return what a checkpoint began with; None if it has not begun."""
        try:
            kept = json.loads(checkpoint.read(_FILE))
            ends, offsets = (
                {key: _numbers(each) for key, each in kept[name].items()} for name in _NAMES
            )
            tasks = {name: int(each) for name, each in kept.get("tasks", {}).items()}
            return cls(ends, offsets, tasks)
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, AttributeError) as error:
            raise FlowError(
                f"{checkpoint.text}/{_FILE} cannot be read: {error}; is it a checkpoint's?"
            ) from error

    def check_tasks(self, tasks: Mapping[str, int]) -> None:
        """Check that a program finds its state where an earlier run kept it.

        New components may be added behind, and the last one may have more tasks.

        Raises:
            FlowError: a component with state is gone, or has other tasks.
        """
        now = list(tasks.items())[: len(self.tasks)]
        for at, (name, count) in enumerate(self.tasks.items()):
            last = at == len(self.tasks) - 1
            found = now[at] if at < len(now) else ("nothing", 0)
            grown = last and len(tasks) == len(self.tasks) and found[1] >= count
            if found[0] != name or not (found[1] == count or grown):
                raise FlowError(
                    f"the checkpoint has the state of {count} tasks of {name}, but the application"
                    f" has {found[1]} of {found[0]} in their place: start it with a new checkpoint"
                )

    def write(self, checkpoint: FileStore) -> None:
        """Write the file, durably and atomically. Call it before the first batch."""
        checkpoint.write(_FILE, json.dumps(asdict(self)).encode())


_NAMES = ("changelog_ends", "offsets")


def _numbers(kept: Mapping[str, int]) -> dict[int, int]:
    return {int(key): int(value) for key, value in kept.items()}
