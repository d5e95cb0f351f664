"""A task's attributes, kept in its state so that they are the task's and not a process's.

Spark calls a task in whichever of its processes is free, and a batch that fails is done again. So
after each call the attributes that pickle are put into the state, if they changed, and before a
call they are taken from there, unless the object at hand is the one that put them.
"""

import pickle
import secrets
from typing import Any

from headrace.flow.error import Unrecoverable

_MAX_BYTES = 1024 * 1024
# No store can be called so.
VERSION = ("", "version")
_NAMES = ("", "attributes")


class TaskAttributes:
    """The attributes of one task object in one process.

    Attributes:
        version: a random mark of the call whose state the object has. Random, so that a batch which
            failed behind the call, and was done again elsewhere, leaves no object behind that
            passes for the task's.
    """

    def __init__(self, task: Any, where: str) -> None:
        self._task = task
        self._where = where
        self._kept: dict[str, bytes] = {}
        self.version: bytes | None = None

    def bring(self, state: Any) -> None:
        """Let the object have the attributes that the state has."""
        version = state.get(VERSION)
        if version is not None and version == self.version:
            return
        self._kept = {}
        for name in state.get(_NAMES, ()):
            data = state.get(("", "attribute", name))
            # Written by `keep` of this very program into its own checkpoint.
            setattr(self._task, name, pickle.loads(data))  # noqa: S301
            self._kept[name] = data
        self.version = version

    def keep(self, state: Any) -> None:
        """Put what changed."""
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

        found = {}
        for name, value in getattr(self._task, "__dict__", {}).items():
            if name in self._task.transient:
                continue
            try:
                data = cloudpickle.dumps(value)  # type: ignore[no-untyped-call]
            except (TypeError, AttributeError, ValueError, pickle.PicklingError, RecursionError):
                continue  # the process's own: `init` makes it
            if len(data) > _MAX_BYTES:
                raise Unrecoverable(
                    f"the attribute {name} of {self._where} has {len(data)} bytes: put it into a"
                    f" store, or name it in transient = ({name!r},) if init() makes it"
                )
            found[name] = data
        return found
