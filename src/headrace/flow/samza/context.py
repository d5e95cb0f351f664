"""The context that a task receives in `init`."""

from collections.abc import Mapping
from typing import Any

from headrace.flow.error import FlowError
from headrace.flow.samza.store import KeyValueStore


class Context:
    """Samza's context of a task: its number, the job's configuration, its stores.

    Attributes:
        config: all keys of the job, the user's own ones included, as texts.
        task: the number of the task, which is that of its partitions.
    """

    def __init__(
        self, config: Mapping[str, str], task: int, stores: Mapping[str, KeyValueStore]
    ) -> None:
        self.config = dict(config)
        self.task = task
        self._stores = stores

    @property
    def task_name(self) -> str:
        return f"Partition {self.task}"

    def store(self, name: str) -> KeyValueStore:
        """Return a store that the configuration declares with stores.NAME.factory."""
        store = self._stores.get(name)
        if store is None:
            known = ", ".join(self._stores) or "none"
            raise FlowError(
                f"there is no store {name!r}: the configuration has {known}; declare it with"
                f" stores.{name}.key.serde and stores.{name}.msg.serde"
            )
        return store

    def __reduce__(self) -> Any:
        raise TypeError("a context belongs to its process")
