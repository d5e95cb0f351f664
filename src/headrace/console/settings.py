"""The settings of a console."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path

from headrace.audit.record import TOPIC as AUDIT_TOPIC
from headrace.client.address import Address
from headrace.client.settings import ClientSettings
from headrace.console.access.user import Users
from headrace.console.change_log import TOPIC as CHANGES_TOPIC
from headrace.console.message.mask import Masks
from headrace.mirror.config.mirror_file import MirrorFile
from headrace.model.error import ConfigError
from headrace.schema.parse import parse
from headrace.schema.schema import SchemaText, SchemaType
from headrace.serde.codec.avro import AvroCodec
from headrace.serde.registry_client_settings import RegistryClientSettings

DEFAULT_LISTEN = Address("127.0.0.1", 8080)


@dataclass(frozen=True, slots=True)
class ConsoleSettings:
    """Everything but the cluster has a default.

    Attributes:
        listen: port 0 lets the kernel choose.
        users: None gives every request all rights, and allows loopback addresses only.
        schemas: what reads the Avro values of a topic that do not carry their schema, by topic.
        registry: where the schemas are that values name; None without one.
        agents, flows: the URLs of their metrics, by name.
        mirrors: the files of mirrors, for the Mirrors page.
    """

    client: ClientSettings
    listen: Address = DEFAULT_LISTEN
    read_only: bool = False
    users: Users | None = None
    masks: Masks = field(default_factory=Masks)
    schemas: Mapping[str, AvroCodec] = field(default_factory=dict)
    registry: RegistryClientSettings | None = None
    agents: Mapping[str, str] = field(default_factory=dict)
    flows: Mapping[str, str] = field(default_factory=dict)
    mirrors: tuple[MirrorFile, ...] = ()
    changes_topic: str = CHANGES_TOPIC
    audit_topic: str = AUDIT_TOPIC
    interval_seconds: float = 2.0

    def validate(self) -> None:
        """Refuse settings that would open the cluster to the network without a login.

        Raises:
            ConfigError: the message says what to add.
        """
        if self.users is None and not self.is_loopback:
            raise ConfigError(
                f"the console would listen on {self.listen} without a login: add --users FILE, or "
                "listen on 127.0.0.1"
            )

    @property
    def is_loopback(self) -> bool:
        if self.listen.host == "localhost":
            return True
        try:
            return ip_address(self.listen.host).is_loopback
        except ValueError:
            return False


def read_schemas(pairs: Sequence[str]) -> dict[str, AvroCodec]:
    """Parse the Avro schemas of `TOPIC=FILE` pairs.

    Raises:
        ConfigError: a file cannot be read, or holds no schema; or fastavro is not installed.
    """
    schemas = {}
    for pair in pairs:
        topic, equals, name = pair.partition("=")
        if not equals:
            raise ConfigError(f"--avro-schema {pair} has no file: write it as TOPIC=FILE")
        try:
            text = SchemaText(SchemaType.AVRO, Path(name).read_text())
            schemas[topic] = AvroCodec(parse(text))
        except ConfigError:
            raise
        except Exception as error:  # fastavro raises any exception on a schema that it cannot use
            raise ConfigError(f"{name} holds no Avro schema: {error}") from error
    return schemas


def read_urls(pairs: Sequence[str], option: str) -> dict[str, str]:
    """Parse `NAME=URL` pairs. A URL without a name is called by its host and port.

    Raises:
        ConfigError: a URL is not HTTP.
    """
    urls = {}
    for pair in pairs:
        name, equals, url = pair.partition("=")
        if not equals or "://" in name:
            name, url = pair.split("://", 1)[-1].split("/", 1)[0], pair
        if not url.startswith(("http://", "https://")):
            raise ConfigError(f"{option} {pair} is no address: write NAME=http://HOST:PORT/metrics")
        urls[name] = url
    return urls
