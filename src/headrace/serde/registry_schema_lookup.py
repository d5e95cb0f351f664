"""Whether the registry has a schema under a topic's subject, for brokers that check records."""

from collections.abc import Mapping
from typing import Any, Final, Protocol
from urllib.parse import quote
from uuid import UUID

from headrace.model.error import ConfigError, ServiceUnavailable
from headrace.serde.error import RegistryError, Unencodable
from headrace.serde.registry_client import RegistryClient
from headrace.serde.registry_client_settings import RegistryClientSettings
from headrace.serde.subject_name import SubjectNameStrategy
from headrace.serde.wire_format import GUID_MAGIC

_STRATEGIES: Final = {
    "TopicNameStrategy": SubjectNameStrategy.TOPIC_NAME,
    "RecordNameStrategy": SubjectNameStrategy.RECORD_NAME,
    "TopicRecordNameStrategy": SubjectNameStrategy.TOPIC_RECORD_NAME,
}
# A batch waits for less than that; the answer then counts for those that come after it.
_TIMEOUT_MS: Final = 5_000
_DEFAULT_CONTEXT: Final = "."
_NOT_FOUND: Final = 404
# The registry's code for a schema that is none; also where our parser refuses one.
_INVALID_SCHEMA: Final = 42201
# It refuses whatever we ask: our login is wrong, or we ask too much.
_REFUSES_ALL: Final = frozenset({401, 403, 429})
_SERVER_ERROR: Final = 500


class _Settings(Protocol):
    def __getitem__(self, name: str) -> Any: ...


class RegistrySchemaLookup:
    """Asks a registry for the subjects of a schema. Ids count in the default context.

    Threads: any. A question blocks for as long as the settings allow.
    """

    def __init__(self, registry: RegistryClient) -> None:
        self._registry = registry

    @classmethod
    def of(cls, settings: "_Settings | Mapping[str, Any]") -> "RegistrySchemaLookup":
        """Return the lookup of a broker's settings, which have `confluent.schema.registry.url`.

        Raises:
            ConfigError: an invalid URL, or a login without its source.
        """
        user = settings["confluent.basic.auth.user.info"]
        from_user_info = settings["confluent.basic.auth.credentials.source"] == "USER_INFO"
        if bool(user) is not from_user_info:
            raise ConfigError(
                "confluent.basic.auth.user.info counts with "
                "confluent.basic.auth.credentials.source=USER_INFO: set both or none"
            )
        found = {
            "schema.registry.url": settings["confluent.schema.registry.url"],
            "schema.registry.basic.auth.user.info": user,
            "schema.registry.bearer.auth.token": settings["confluent.bearer.auth.token"],
            "schema.registry.ssl.ca.location": settings["confluent.ssl.truststore.location"],
            "schema.registry.request.timeout.ms": _TIMEOUT_MS,
        }
        texts = {name: str(value) for name, value in found.items() if value is not None}
        return cls(RegistryClient(RegistryClientSettings.of(texts)))

    def knows(self, topic: str, head: bytes, *, key: bool, strategy: str) -> bool:
        """Return whether the schema that a head names is under the subject of a topic.

        Args:
            head: 00 and an id, or 01 and a GUID.
            strategy: Confluent's class that names the subject.

        Raises:
            RegistryError: the registry refused to say it of this schema.
            ServiceUnavailable: no registry answers, or it would refuse other questions as well.
        """
        try:
            schema_id = self._id(head)
            if schema_id is None:
                return False
            path = f"/schemas/ids/{schema_id}/subjects"
            named = _STRATEGIES[strategy.rpartition(".")[2]]
            if named is SubjectNameStrategy.TOPIC_NAME:
                subject = named.subject(topic, key=key)
                found = self._registry.ask("GET", f"{path}?subject={quote(subject, safe='')}")
            else:
                # First, because a client remembers schemas that are not there.
                found = self._registry.ask("GET", path)
                subject = named.subject(topic, self._registry.schema(schema_id).parsed, key=key)
        except Unencodable:
            return False
        except RegistryError as error:
            if error.status == _NOT_FOUND or error.code == _INVALID_SCHEMA:
                return False
            if error.status >= _SERVER_ERROR or error.status in _REFUSES_ALL:
                raise ServiceUnavailable(f"the schema registry fails: {error}") from error
            raise
        return isinstance(found, list) and subject in found

    def close(self) -> None:
        """Give connections back."""
        self._registry.close()

    def _id(self, head: bytes) -> int | None:
        """Return the id of a head in the default context; None if it has none there."""
        if head[0] != GUID_MAGIC:
            return int.from_bytes(head[1:], "big")
        guid = quote(str(UUID(bytes=head[1:])), safe="")
        found = self._registry.ask("GET", f"/schemas/guids/{guid}/ids")
        for each in found if isinstance(found, list) else ():
            if isinstance(each, dict) and each.get("context") == _DEFAULT_CONTEXT:
                return int(each["id"])
        return None
