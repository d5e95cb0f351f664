"""`SessionLock`: at most one process at a time does something, of all that share a store.

The lock is an ephemeral node: the process that creates it has the lock, until it is released or the
session of its store ends. A process that was killed loses it when its session times out. A process
that lost its session without noticing may still act: look at `held` right before each step.
"""

import json
import secrets
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from headrace.cluster.store import ClusterStore, CreateNode, DeleteNode, node_path
from headrace.model.error import StorageError, VersionConflict

LOCK_KIND = "locks"


class SessionLock:
    """One lock, by its name.

    Args:
        holder: what others are shown of this process while it has the lock.
    """

    def __init__(self, store: ClusterStore, name: str, holder: Mapping[str, Any]) -> None:
        self._store = store
        self._path = node_path(LOCK_KIND, name)
        self._token = secrets.token_hex(8)
        self._data = json.dumps({**holder, "token": self._token}).encode()

    def acquire(self) -> Mapping[str, Any] | None:
        """Take the lock, and return None; or return what is shown of the process that has it.

        Raises:
            StorageError: the store cannot be reached.
        """
        with suppress(VersionConflict):
            self._store.commit([CreateNode(self._path, self._data, ephemeral=True)])
        holder = self._holder()
        if holder is None:  # it ended in between
            return {}
        return None if holder.get("token") == self._token else holder

    def held(self) -> bool:
        """Return whether this process has the lock.

        Raises:
            StorageError: the store cannot be reached.
        """
        holder = self._holder()
        return holder is not None and holder.get("token") == self._token

    def release(self) -> None:
        """Give the lock back if it is ours; it ends with the session if that cannot be done."""
        with suppress(StorageError, VersionConflict):
            if self.held():
                self._store.commit([DeleteNode(self._path)])

    def _holder(self) -> dict[str, Any] | None:
        node = self._store.get(self._path)
        if node is None:
            return None
        try:
            found = json.loads(node.data)
        except ValueError:
            found = None
        return found if isinstance(found, dict) else {}
