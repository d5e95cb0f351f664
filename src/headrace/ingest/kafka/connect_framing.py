"""Keys and values of the kafka sink that carry Connect's schemas, in the registry's framing.

Rule 1: a schema is registered before the first record with it is written. A registry that does not
    answer, or that refuses a schema, leaves the events in the channel, in their order.
Rule 2: the id of its schema is a part of a key. So a key's schema changes only where its columns
    do, and a topic that is compacted keeps one record for each row.
"""

import json
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from headrace.ingest.error import DeliveryFailed
from headrace.ingest.event import EventBatch
from headrace.ingest.format.connect_avro import avro_schema, avro_writer
from headrace.ingest.format.connect_json_schema import json_schema
from headrace.ingest.format.connect_schema import ConnectSchema, NotConnect, described
from headrace.model.error import HeadraceError
from headrace.schema.schema import SchemaText, SchemaType
from headrace.serde.error import RegistryError
from headrace.serde.registry_client import RegistryClient
from headrace.serde.subject_name import SubjectNameStrategy
from headrace.serde.wire_format import id_head

_INCOMPATIBLE: Final = 409
_MOST_KEPT: Final = 1000


class _Known(NamedTuple):
    """What the records of a topic begin with, and how they are written."""

    prefix: bytes
    head: bytes
    encode: Callable[[bytes], bytes]


class ConnectFraming:
    """Takes the schema out of each key and value, and puts the id of it in front.

    Threads: the sink's. It waits for the registry, once per schema and topic.

    Args:
        kind: AVRO or JSON.
        subject: of all values; None for TOPIC-value.
        register: False takes only schemas that the registry has.
    """

    def __init__(
        self,
        registry: RegistryClient,
        kind: SchemaType,
        *,
        subject: str | None = None,
        register: bool = True,
    ) -> None:
        self._registry = registry
        self._kind = kind
        self._subject = subject
        self._register = register
        # By topic, and whether it is the key's.
        self._known: OrderedDict[tuple[str, bool], _Known] = OrderedDict()

    def frame(self, topic: str, batch: EventBatch, values: list[bytes]) -> Sequence[bytes | None]:
        """Return the values of a batch in their framing; None for an event without a body.

        Raises:
            DeliveryFailed: an event carries no schema, its value does not fit, or the registry does
                not take the schema.
        """
        return [self._framed(topic, value, key=False) if value else None for value in values]

    def frame_keys(self, topic: str, keys: Sequence[bytes | None]) -> Sequence[bytes | None]:
        """Return keys in their framing.

        Raises:
            DeliveryFailed: as `frame` does.
        """
        return [None if key is None else self._framed(topic, key, key=True) for key in keys]

    def close(self) -> None:
        """Give connections back."""
        self._registry.close()

    def _framed(self, topic: str, data: bytes, *, key: bool) -> bytes:
        known = self._known.get((topic, key))
        try:
            if known is None or not (data.startswith(known.prefix) and data.endswith(b"}")):
                found = described(data)
                known = self._found(topic, found.prefix, found.schema, key=key)
                return known.head + known.encode(found.payload)
            return known.head + known.encode(data[len(known.prefix) : -1])
        except NotConnect as error:
            what = "key" if key else "value"
            raise DeliveryFailed(f"topic {topic}: a {what} is not written: {error}") from None

    def _found(self, topic: str, prefix: bytes, schema: ConnectSchema, *, key: bool) -> _Known:
        """Return how records of a schema are written, and have it registered."""
        if self._kind is SchemaType.AVRO:
            text, encode = avro_schema(schema), _avro_encoder(schema)
        else:
            text, encode = json_schema(schema), _json_encoder
        subject = SubjectNameStrategy.TOPIC_NAME.subject(topic, key=key)
        if self._subject is not None and not key:
            subject = self._subject
        known = _Known(prefix, id_head(self._id(subject, SchemaText(self._kind, text))), encode)
        self._known[topic, key] = known
        self._known.move_to_end((topic, key))
        if len(self._known) > _MOST_KEPT:
            self._known.popitem(last=False)
        return known

    def _id(self, subject: str, text: SchemaText) -> int:
        try:
            if self._register:
                return self._registry.register(subject, text).id
            return self._registry.lookup(subject, text).id
        except RegistryError as error:
            if error.status == _INCOMPATIBLE:
                raise DeliveryFailed(
                    f"subject {subject} refuses the schema that its table has now, and all events "
                    "wait in the channel: change the table, or write headrace schema "
                    f"compatibility-level set {subject} --level NONE: {error}"
                ) from error
            raise DeliveryFailed(f"no schema for subject {subject}: {error}") from error
        except HeadraceError as error:
            raise DeliveryFailed(f"no schema for subject {subject}: {error}") from error


def _avro_encoder(schema: ConnectSchema) -> Callable[[bytes], bytes]:
    write = avro_writer(schema)

    def encode(payload: bytes) -> bytes:
        try:
            return write(json.loads(payload))
        except (TypeError, ValueError, AttributeError, RecursionError) as error:
            raise NotConnect(f"its payload does not fit its schema: {error}") from None

    return encode


def _json_encoder(payload: bytes) -> bytes:
    try:
        json.loads(payload)
    except (ValueError, RecursionError) as error:
        raise NotConnect(f"its payload is no JSON: {error}") from None
    return payload
