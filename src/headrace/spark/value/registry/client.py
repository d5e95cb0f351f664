"""The registry's clients of this process: tasks come and go, and what they asked for stays."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, Final, TypeVar

from headrace.model.error import ConfigError
from headrace.serde.error import RegistryError
from headrace.serde.registered_schema import RegisteredSchema
from headrace.serde.registry_client import RegistryClient
from headrace.serde.registry_client_settings import RegistryClientSettings
from headrace.serde.serializer import Serializer
from headrace.spark.value.registry.option import RegistryFormat, RegistryTexts

_MOST_CLIENTS: Final = 16
_MOST_KEPT: Final = 200
_NOT_FOUND: Final = 404


T = TypeVar("T")


class RegistryAccess:
    """A client and a serializer, and what was made of their schemas, for all tasks."""

    def __init__(self, texts: RegistryTexts) -> None:
        self.client = RegistryClient(RegistryClientSettings.of(dict(texts)))
        self.serializer = Serializer(self.client)
        self._lock = threading.Lock()
        self._kept: OrderedDict[Hashable, Any] = OrderedDict()

    def kept(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return what was made for a key, the last few hundred of them; make it once."""
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                found: T = self._kept[key]
                return found
        made = make()
        with self._lock:
            self._kept[key] = made
            if len(self._kept) > _MOST_KEPT:
                self._kept.popitem(last=False)
        return made


_lock = threading.Lock()
_open: "OrderedDict[RegistryTexts, RegistryAccess]" = OrderedDict()


def registry_access(texts: RegistryTexts) -> RegistryAccess:
    """Return the access to a registry, which is made once per process."""
    with _lock:
        found = _open.get(texts)
        if found is None:
            found = _open[texts] = RegistryAccess(texts)
            if len(_open) > _MOST_CLIENTS:
                _open.popitem(last=False)[1].client.close()
        _open.move_to_end(texts)
        return found


def reader_schema(options: RegistryFormat) -> RegisteredSchema:
    """Return the schema that all values are resolved to.

    Raises:
        ConfigError: the subject has none, or one of another format.
        RegistryError: the registry refuses the request.
        RegistryUnreachable: no registry answers.
    """
    access = registry_access(options.registry)
    if options.schema_id is not None:
        return access.client.schema(options.schema_id, options.subject)
    try:
        if options.version is None:
            found = access.serializer.latest(options.subject)
        else:
            found = access.client.version(options.subject, options.version)
    except RegistryError as error:
        if error.status != _NOT_FOUND:
            raise
        raise ConfigError(
            f"the schema registry has no schema for {options.subject}: {error}; register one, or "
            f"name another subject with the option {options.side}Subject"
        ) from error
    if found.type is not options.type:
        raise ConfigError(
            f"the subject {options.subject} has a schema of {found.type.value}, so that "
            f"{options.side}Format must be {found.type.value.lower()}, not {options.format}"
        )
    return found
