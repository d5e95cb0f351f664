"""A task's attributes, kept in its state so that every process sees the same.

Spark calls a task in any of its worker processes, and repeats a batch that fails. So after each
call the attributes that pickle are put into the state if they changed. Before a call they are set
from the state, unless this very object has put them there.
"""

import pickle
import secrets
from typing import Any

from headrace.flow.error import Unrecoverable

_MAX_BYTES = 1024 * 1024
# Keys in the state that no store can have: a store's name is not empty.
VERSION = ("", "version")
_NAMES = ("", "attributes")


class TaskAttributes:
    """The attributes of one task object in one process.

    Attributes:
        version: a random mark of the call that the object's attributes are from. A batch that
            failed after the call, and was repeated in another process, leaves an object with a
            version that no longer matches the state.
    """

    def __init__(self, task: Any, where: str) -> None:
        self._task = task
        self._where = where
        self._kept: dict[str, bytes] = {}
        self.version: bytes | None = None

    def load(self, state: Any) -> None:
        """Set the attributes that the state has."""
        version = state.get(VERSION)
        if version is not None and version == self.version:
            return
        self._kept = {}
        for name in state.get(_NAMES, ()):
            data = state.get(("", "attribute", name))
            # Written by `save` of this very program into its own checkpoint.
            setattr(self._task, name, pickle.loads(data))  # noqa: S301
            self._kept[name] = data
        self.version = version

    def save(self, state: Any) -> None:
        """Put the attributes that changed into the state."""
        now = self._pickled()
        for name, data in now.items():
            if self._kept.get(name) != data:
                state.put(("", "attribute", name), data)
        for name in self._kept.keys() - now.keys():
            state.delete(("", "attribute", name))
        if now.keys() != self._kept.keys():
            state.put(_NAMES, sorted(now))
        self._kept = now
        self.version = secrets.token_bytes(12)
        state.put(VERSION, self.version)

    def _pickled(self) -> dict[str, bytes]:
        from pyspark import cloudpickle

        pickled = {}
        for name, value in getattr(self._task, "__dict__", {}).items():
            if name in self._task.transient:
                continue
            try:
                data = cloudpickle.dumps(value)  # type: ignore[no-untyped-call]
            except (TypeError, AttributeError, ValueError, pickle.PicklingError, RecursionError):
                continue  # it belongs to the process: `init` makes it
            if len(data) > _MAX_BYTES:
                raise Unrecoverable(
                    f"the attribute {name} of {self._where} has {len(data)} bytes: put it into a"
                    f" store, or name it in transient = ({name!r},) if init() makes it"
                )
            pickled[name] = data
        return pickled
