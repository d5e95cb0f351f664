"""Encodes and decodes keys and values with the schemas of a registry.

Rule 1: everything that may ask the registry runs in threads: those of `run`, or of a consumer
instance. The event loop waits for none of it.
Rule 2: a registry that hangs holds `_THREADS` threads, `_MOST_WAITING` requests and of their bodies
`_WAITING_BYTES`, and no more: others are refused at once, and requests without schemas have the
rest of the budget of bodies.
Rule 3: what a schema refuses is the client's error, and says why: 42203 a value that does not fit,
42205 what is no schema, 42207 a schema that cannot be used. A registry that does not answer is
50003.
"""

import asyncio
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final, TypeVar

import structlog

from headrace.gateway.rest.error import RestError, unprocessable
from headrace.gateway.rest.json_document import write_json
from headrace.gateway.rest.request_body import busy
from headrace.gateway.rest.schema.schema_selector import TYPES, SchemaSelector
from headrace.model.error import ConfigError
from headrace.schema.error import InvalidSchema
from headrace.schema.parse import parse
from headrace.schema.schema import SchemaText
from headrace.serde.deserializer import Deserializer
from headrace.serde.error import RegistryError, RegistryUnreachable, Undecodable, Unencodable
from headrace.serde.registered_schema import RegisteredSchema
from headrace.serde.registry_client import RegistryClient
from headrace.serde.registry_client_settings import RegistryClientSettings
from headrace.serde.serializer import Serializer
from headrace.serde.subject_name import SubjectNameStrategy

log = structlog.get_logger()

UNREACHABLE: Final = 50003
"""The code of a registry that does not answer."""

_THREADS: Final = 8
_MOST_WAITING: Final = 128
_WAITING_BYTES: Final = 16 << 20
_MOST_VERSIONS: Final = 200
_MOST_REASON: Final = 300
"""Characters of why a record cannot be read, before what to do about it."""

T = TypeVar("T")


class RegistrySerde:
    """One registry, and threads that wait for it.

    Threads: `run` on the event loop, everything else in threads.
    """

    def __init__(self, settings: RegistryClientSettings) -> None:
        self._registry = RegistryClient(settings)
        self._serializer = Serializer(self._registry)
        self._deserializer = Deserializer(self._registry)
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="rest-schema")
        self._waiting = 0
        self._waiting_bytes = 0
        self._lock = threading.Lock()
        self._versions: OrderedDict[tuple[str, int], RegisteredSchema] = OrderedDict()

    async def run(self, size: int, work: Callable[[], T]) -> T:
        """Run work that may ask the registry.

        Args:
            size: the bytes that a request holds while it waits.

        Raises:
            RestError: 50003, too many requests wait for the registry; 42901, with too many bytes.
        """
        with self._lock:
            if self._waiting >= _MOST_WAITING:
                raise _unreachable()
            if self._waiting and self._waiting_bytes + size > _WAITING_BYTES:
                raise busy()
            self._waiting += 1
            self._waiting_bytes += size
        # Counted until the work ends, also if its request goes away: its thread holds the body.
        task = self._threads.submit(work)
        task.add_done_callback(partial(self._count_down, size))
        return await asyncio.wrap_future(task)

    def schema(self, topic: str, named: SchemaSelector, *, key: bool) -> RegisteredSchema:
        """Return the schema that a request names. A text is registered, unless it is there.

        Raises:
            RestError: 42205, 42207, 50003.
        """
        try:
            found = self._find(topic, named, key=key)
        except InvalidSchema as error:
            raise unprocessable(f"Invalid schema: {error}", 42205) from None
        except RegistryUnreachable as error:
            log.warning("rest_registry_unreachable", error=str(error))
            raise _unreachable() from None
        except RegistryError as error:
            raise _refused(error) from None
        except Unencodable as error:
            raise unprocessable(f"Error serializing message: {error}.", 42207) from None
        if named.type is not None and found.type is not named.type:
            raise unprocessable(
                f"Error serializing message: the schema with id {found.id} is of type "
                f"{found.type.value}, and the request says {named.type.value}.",
                42207,
            )
        return found

    def encode(self, data: Any, schema: RegisteredSchema) -> bytes | None:
        """Return the framed bytes of data in JSON; None of null.

        Raises:
            RestError: 42203, it does not fit its schema.
        """
        if data is None:
            return None
        try:
            return self._serializer.encode(data, schema, from_json=True)
        except Unencodable as error:
            raise unprocessable(f"Conversion of JSON failed: {error}", 42203) from None
        except (Undecodable, ConfigError) as error:  # no use of the schema, or no library for it
            raise unprocessable(f"Error serializing message: {error}.", 42207) from None

    def encode_all(
        self, topic: str, named: SchemaSelector, datas: Sequence[Any], *, key: bool
    ) -> tuple[int, list[bytes | None]]:
        """Return the id of a schema, and the framed bytes of what it is for."""
        schema = self.schema(topic, named, key=key)
        return schema.id, [self.encode(each, schema) for each in datas]

    def decode(self, data: bytes | None, form: str, *, key: bool) -> bytes:
        """Return a key or a value as JSON.

        Args:
            form: avro, jsonschema or protobuf.

        Raises:
            RestError: 42203, it is of no such schema; 42207, 50003.
        """
        if data is None:
            return b"null"
        try:
            found = self._deserializer.decode(data, key=key, as_json=True)
        except (Undecodable, ConfigError) as error:
            raise _unreadable(str(error), form) from None
        except RegistryUnreachable as error:
            log.warning("rest_registry_unreachable", error=str(error))
            raise _unreachable() from None
        except RegistryError as error:
            raise _refused(error) from None
        if found.schema.type is not TYPES[form.upper()]:
            raise _unreadable(f"it is of type {found.schema.type.value}", form)
        try:
            return write_json(found.value)
        except (TypeError, ValueError) as error:
            raise _unreadable(f"it cannot be written as JSON: {error}", form) from None

    def close(self) -> None:
        """Wait for nothing more."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._registry.close()

    def _count_down(self, size: int, _: object) -> None:
        with self._lock:
            self._waiting -= 1
            self._waiting_bytes -= size

    def _find(self, topic: str, named: SchemaSelector, *, key: bool) -> RegisteredSchema:
        if named.text is not None:
            assert named.type is not None
            text = SchemaText(named.type, named.text)
            return self._serializer.register(self._subject(topic, named, text, key=key), text)
        if named.id is not None:
            return self._registry.schema(named.id, named.subject)
        subject = named.subject or SubjectNameStrategy.TOPIC_NAME.subject(topic, key=key)
        if named.version is None:
            return self._serializer.latest(subject)
        place = (subject, named.version)
        with self._lock:
            kept = self._versions.get(place)
        if kept is None:
            kept = self._registry.version(subject, named.version)
            with self._lock:
                self._versions[place] = kept
                if len(self._versions) > _MOST_VERSIONS:
                    self._versions.popitem(last=False)
        return kept

    def _subject(self, topic: str, named: SchemaSelector, text: SchemaText, *, key: bool) -> str:
        if named.subject is not None:
            return named.subject
        if named.strategy is SubjectNameStrategy.TOPIC_NAME:
            return named.strategy.subject(topic, key=key)
        return named.strategy.subject(topic, parse(text, {}), key=key)


def described(schema: RegisteredSchema) -> dict[str, Any]:
    """Return what API v3 says of the schema of a record that was written."""
    found: dict[str, Any] = {"schema_id": schema.id}
    if schema.subject is not None:
        found["subject"] = schema.subject
    if schema.version is not None:
        found["schema_version"] = schema.version
    return found


def _refused(error: RegistryError) -> RestError:
    if error.code in (422, 42201):
        return unprocessable(f"Invalid schema: {error}", 42205)
    if error.status in (401, 403):
        log.warning("rest_registry_refused_login", status=error.status)
        return unprocessable("The schema registry does not let this proxy use the schema.", 42207)
    if error.status >= 500:
        log.warning("rest_registry_failed", status=error.status, error=str(error))
        return _unreachable()
    return unprocessable(f"The schema cannot be used: {error}", 42207)


def _unreachable() -> RestError:
    return RestError(500, "Retriable error: the schema registry does not answer.", UNREACHABLE)


def _unreadable(why: str, form: str) -> RestError:
    return unprocessable(
        f"A record is no {form}: {why[:_MOST_REASON]}. Read it with the format binary, or seek "
        "behind it.",
        42203,
    )
