"""Asks a schema registry, ours or Confluent's."""

import http.client
import json
import ssl
import threading
import time
from collections import OrderedDict
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Final
from urllib.parse import quote, urlencode, urlsplit

from headrace.model.error import ConfigError
from headrace.schema.error import InvalidSchema
from headrace.schema.limit import MAX_TOTAL_CHARACTERS
from headrace.schema.parse import parse
from headrace.schema.schema import SchemaText
from headrace.serde.error import RegistryError, RegistryUnreachable
from headrace.serde.registered_schema import RegisteredSchema, schema_text
from headrace.serde.registry_client_settings import RegistryClientSettings

CONTENT_TYPE: Final = "application/vnd.schemaregistry.v1+json"
_MOST_ANSWER_BYTES: Final = 32 << 20
_MOST_CACHED: Final = 1_000
_MOST_IDLE: Final = 8
_MOST_REFERENCES: Final = 1_000
# How long a schema that is not there counts as such: bytes of no schema at all may name any id.
_MISSING_SECONDS: Final = 10.0
_NOT_FOUND: Final = 404
# Another instance may do better: it is not ready, has no leader, or is overloaded.
_TRY_ANOTHER: Final = frozenset({500, 502, 503, 504})


class RegistryClient:
    """Reads and registers schemas.

    A schema never changes under its id, so what was asked for once is kept, the last thousand; that
    there is none is kept for ten seconds. Requests go to the first URL that answers, and to the
    next when it does not.

    Threads: any. A request blocks for as long as the settings allow, per URL.
    """

    def __init__(self, settings: RegistryClientSettings) -> None:
        self.settings = settings
        self._lock = threading.Lock()
        self._cached: OrderedDict[tuple[str, ...], RegisteredSchema] = OrderedDict()
        self._missing: OrderedDict[tuple[str, ...], tuple[float, RegistryError]] = OrderedDict()
        self._idle: list[tuple[str, http.client.HTTPConnection]] = []
        self._first = 0
        self._tls: ssl.SSLContext | None = None

    # -- what values need ----------------------------------------------------------------------

    def schema(self, schema_id: int, subject: str | None = None) -> RegisteredSchema:
        """Return the schema with an id, in the context of a subject if one is given.

        Raises:
            RegistryError: 40403, there is none.
            RegistryUnreachable: no registry answers.
        """
        context = _context(subject)
        key = ("id", str(schema_id), context)
        if (found := self._from_cache(key)) is not None:
            return found
        query = f"?{urlencode({'subject': context})}" if context else ""
        answer = self._look_up(key, f"/schemas/ids/{schema_id}{query}")
        return self._keep(key, self._registered({"id": schema_id, **answer}))

    def schema_of_guid(self, guid: str) -> RegisteredSchema:
        """Return the schema with a GUID; its id is that in the default context, -1 if it has none.

        Raises:
            RegistryError: 40403, there is none.
            RegistryUnreachable: no registry answers.
        """
        key = ("guid", guid)
        if (found := self._from_cache(key)) is not None:
            return found
        answer = self._look_up(key, f"/schemas/guids/{quote(guid, safe='')}")
        return self._keep(key, self._registered({"id": -1, "guid": guid, **answer}))

    def version(self, subject: str, version: int | str = "latest") -> RegisteredSchema:
        """Return a version of a subject, as it is now.

        Raises:
            RegistryError: 40401 or 40402, there is none.
            RegistryUnreachable: no registry answers.
        """
        path = f"/subjects/{quote(subject, safe='')}/versions/{quote(str(version), safe='')}"
        return self._registered(_object(self.ask("GET", path)))

    def register(
        self, subject: str, text: SchemaText, *, normalize: bool = False
    ) -> RegisteredSchema:
        """Register a schema, unless it is there, and return it with its id.

        Raises:
            RegistryError: 40901, it is not compatible; 42201, it is no schema; ...
            RegistryUnreachable: no registry answers.
        """
        path = f"/subjects/{quote(subject, safe='')}/versions"
        if normalize:
            path += "?normalize=true"
        answer = _object(self.ask("POST", path, schema_body(text)))
        return self._registered({"subject": subject, **schema_body(text), **answer})

    def lookup(self, subject: str, text: SchemaText) -> RegisteredSchema:
        """Return the version of a subject that has this schema.

        Raises:
            RegistryError: 40401 or 40403, there is none.
            RegistryUnreachable: no registry answers.
        """
        path = f"/subjects/{quote(subject, safe='')}"
        return self._registered(_object(self.ask("POST", path, schema_body(text))))

    # -- any request ---------------------------------------------------------------------------

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """Send a request and return the answer, parsed.

        Args:
            path: with its query, quoted.

        Raises:
            RegistryError: the registry refused it, or answered with something else than JSON.
            RegistryUnreachable: no registry answers.
        """
        data = None if body is None else json.dumps(body).encode()
        problems = []
        refusal: RegistryError | None = None
        urls = self.settings.urls
        first = self._first
        for number in range(len(urls)):
            place = (first + number) % len(urls)
            try:
                status, answer = self._exchange(urls[place], method, path, data)
            except (OSError, http.client.HTTPException) as error:
                problems.append(f"{urls[place]}: {error or type(error).__name__}")
                continue
            if status < 300:
                self._first = place
                return _parsed(answer, urls[place])
            refusal = _refusal(status, answer, urls[place])
            if status not in _TRY_ANOTHER:
                self._first = place
                raise refusal
        if refusal is not None:
            raise refusal
        raise RegistryUnreachable(f"no schema registry answers: {'; '.join(problems)}")

    def close(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for _, connection in idle:
            connection.close()

    def __enter__(self) -> "RegistryClient":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # -- inside --------------------------------------------------------------------------------

    def _registered(self, answer: Mapping[str, Any]) -> RegisteredSchema:
        try:
            text = schema_text(answer)
            schema_id = int(answer.get("id", -1))
            guid, subject = _optional(answer, "guid"), _optional(answer, "subject")
            version = None if answer.get("version") is None else int(answer["version"])
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise _no_schema(error) from error
        try:
            parsed = parse(text, self._resolved(text))
        except InvalidSchema as error:
            raise RegistryError(
                f"the schema registry has a schema that cannot be read: {error}", 200, 42201
            ) from error
        return RegisteredSchema(schema_id, guid, subject, version, text, parsed)

    def _resolved(self, text: SchemaText) -> dict[str, str]:
        """Return the texts of all references, and of theirs, by name."""
        resolved: dict[str, str] = {}
        waiting = list(text.references)
        characters = 0
        while waiting:
            reference = waiting.pop()
            if reference.name in resolved:
                continue
            path = f"/subjects/{quote(reference.subject, safe='')}/versions/{reference.version}"
            # What is referenced cannot be deleted for good, but softly.
            answer = _object(self.ask("GET", f"{path}?deleted=true"))
            try:
                found = schema_text(answer)
            except (KeyError, TypeError, ValueError, AttributeError) as error:
                raise _no_schema(error) from error
            resolved[reference.name] = found.text
            waiting += found.references
            characters += len(found.text)
            if len(resolved) > _MOST_REFERENCES or characters > MAX_TOTAL_CHARACTERS:
                raise RegistryError("a schema has too many or too long references", 200, 42201)
        return resolved

    def _from_cache(self, key: tuple[str, ...]) -> RegisteredSchema | None:
        with self._lock:
            found = self._cached.get(key)
            if found is not None:
                self._cached.move_to_end(key)
            return found

    def _look_up(self, key: tuple[str, ...], path: str) -> dict[str, Any]:
        """Ask for a schema, unless it was not there a moment ago."""
        with self._lock:
            missing = self._missing.get(key)
        if missing is not None and time.monotonic() < missing[0]:
            raise missing[1]
        try:
            return _object(self.ask("GET", path))
        except RegistryError as error:
            if error.status == _NOT_FOUND:
                with self._lock:
                    self._missing[key] = (time.monotonic() + _MISSING_SECONDS, error)
                    if len(self._missing) > _MOST_CACHED:
                        self._missing.popitem(last=False)
            raise

    def _keep(self, key: tuple[str, ...], schema: RegisteredSchema) -> RegisteredSchema:
        with self._lock:
            self._cached[key] = schema
            if len(self._cached) > _MOST_CACHED:
                self._cached.popitem(last=False)
        return schema

    def _exchange(self, url: str, method: str, path: str, data: bytes | None) -> tuple[int, bytes]:
        """Send a request on a kept connection, or on a new one if the kept one was closed."""
        kept = self._take(url)
        if kept is not None:
            try:
                return self._request(url, kept, method, path, data)
            except (ConnectionError, http.client.HTTPException):
                # The server closed it between requests, before or while it took this one. All
                # requests of a registry may be repeated.
                kept.close()
        return self._request(url, self._connect(url), method, path, data)

    def _request(
        self,
        url: str,
        connection: http.client.HTTPConnection,
        method: str,
        path: str,
        data: bytes | None,
    ) -> tuple[int, bytes]:
        headers = {"Accept": f"{CONTENT_TYPE}, application/json"}
        if data is not None:
            headers["Content-Type"] = CONTENT_TYPE
        if self.settings.authorization is not None:
            headers["Authorization"] = self.settings.authorization
        try:
            connection.request(method, urlsplit(url).path + path, data, headers)
            response = connection.getresponse()
            answer = response.read(_MOST_ANSWER_BYTES + 1)
        except BaseException:
            connection.close()
            raise
        if len(answer) > _MOST_ANSWER_BYTES or response.will_close:
            connection.close()
        else:
            self._put_back(url, connection)
        if len(answer) > _MOST_ANSWER_BYTES:
            raise http.client.HTTPException("the answer is larger than 32 MiB")
        return response.status, answer

    def _connect(self, url: str) -> http.client.HTTPConnection:
        parts = urlsplit(url)
        assert parts.hostname is not None
        seconds = self.settings.timeout_ms / 1000
        if parts.scheme == "http":
            return http.client.HTTPConnection(parts.hostname, parts.port, timeout=seconds)
        return http.client.HTTPSConnection(
            parts.hostname, parts.port, timeout=seconds, context=self._tls_context()
        )

    def _tls_context(self) -> ssl.SSLContext:
        if self._tls is None:
            settings = self.settings
            try:
                context = ssl.create_default_context(cafile=settings.ca_file)
            except OSError as error:
                raise ConfigError(
                    f"schema.registry.ssl.ca.location {settings.ca_file} is no PEM file with "
                    f"certificates: {error}"
                ) from error
            if settings.certificate_file is not None:
                try:
                    context.load_cert_chain(settings.certificate_file, settings.key_file)
                except OSError as error:
                    raise ConfigError(
                        f"schema.registry.ssl.certificate.location {settings.certificate_file} "
                        f"and its key cannot be used: {error}"
                    ) from error
            self._tls = context
        return self._tls

    def _take(self, url: str) -> http.client.HTTPConnection | None:
        with self._lock:
            for number, (where, connection) in enumerate(self._idle):
                if where == url:
                    del self._idle[number]
                    return connection
        return None

    def _put_back(self, url: str, connection: http.client.HTTPConnection) -> None:
        with self._lock:
            if len(self._idle) < _MOST_IDLE:
                self._idle.append((url, connection))
                return
        connection.close()


def schema_body(text: SchemaText) -> dict[str, Any]:
    """Return a schema as a request names it."""
    body: dict[str, Any] = {"schema": text.text, "schemaType": text.type.value}
    if text.references:
        body["references"] = [
            {"name": each.name, "subject": each.subject, "version": each.version}
            for each in text.references
        ]
    return body


def _context(subject: str | None) -> str:
    """Return the context of a qualified subject, as `:.staging:`; empty for the default one."""
    if subject is None or not subject.startswith(":."):
        return ""
    return subject[: subject.find(":", 2) + 1]


def _optional(answer: Mapping[str, Any], name: str) -> str | None:
    value = answer.get(name)
    return None if value is None else str(value)


def _no_schema(error: Exception) -> RegistryError:
    return RegistryError(f"the schema registry answers with no schema: {error!r}", 200, 200)


def _object(answer: Any) -> dict[str, Any]:
    if not isinstance(answer, dict):
        raise RegistryError("the schema registry answers with no object", 200, 200)
    return answer


def _parsed(answer: bytes, url: str) -> Any:
    try:
        return json.loads(answer) if answer else None
    except (ValueError, RecursionError) as error:
        raise RegistryError(
            f"{url} answers with something else than JSON: is it a schema registry?", 200, 200
        ) from error


def _refusal(status: int, answer: bytes, url: str) -> RegistryError:
    try:
        found = json.loads(answer)
        return RegistryError(str(found["message"]), status, int(found["error_code"]))
    except (ValueError, KeyError, TypeError, RecursionError):
        reason = http.client.responses.get(status, "")
        return RegistryError(
            f"{url} answers {f'{status} {reason}'.rstrip()}: is it a schema registry?",
            status,
            status,
        )
