"""How a client reaches the schema registry: Confluent's keys, with librdkafka's for TLS."""

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import unquote, urlsplit

from headrace.model.config import ConfigKey, ConfigTable, ConfigType
from headrace.model.error import ConfigError

URL: Final = "schema.registry.url"


def _text(name: str, doc: str) -> ConfigKey:
    return ConfigKey(name=name, type=ConfigType.STRING, default=None, doc=doc)


def _secret(name: str, doc: str) -> ConfigKey:
    return ConfigKey(name=name, type=ConfigType.PASSWORD, default=None, doc=doc)


REGISTRY_CONFIG: Final = ConfigTable.of(
    "a client of a schema registry",
    [
        _text(URL, "Where it answers, http://HOST:PORT; several with commas between them."),
        _secret("schema.registry.basic.auth.user.info", "Who to log in as: NAME:PASSWORD."),
        _secret("schema.registry.bearer.auth.token", "A token to log in with, instead."),
        _text("schema.registry.ssl.ca.location", "A PEM file with the authorities to trust."),
        _text("schema.registry.ssl.certificate.location", "A PEM file with our own certificate."),
        _text("schema.registry.ssl.key.location", "A PEM file with its key."),
        ConfigKey(
            name="schema.registry.request.timeout.ms",
            type=ConfigType.INT,
            default=30_000,
            doc="How long to wait for one answer.",
            minimum=1,
            maximum=2**31 - 1,
        ),
    ],
)
"""Every key begins with `schema.registry.`, so that it can stand beside those of a client."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryClientSettings:
    """Every key of `REGISTRY_CONFIG`, typed. Its text leaves secrets out.

    Attributes:
        urls: without user, password and a slash at the end.
        authorization: the header of every request; None without a login.

    >>> RegistryClientSettings.of({"schema.registry.url": "http://me:secret@127.0.0.1:8081/"}).urls
    ('http://127.0.0.1:8081',)
    """

    urls: tuple[str, ...]
    authorization: str | None = field(default=None, repr=False)
    ca_file: str | None = None
    certificate_file: str | None = None
    key_file: str | None = None
    timeout_ms: int = 30_000

    @classmethod
    def of(cls, texts: Mapping[str, str]) -> "RegistryClientSettings":
        """Parse what a user wrote.

        Raises:
            ConfigError: an unknown key, a value that its key cannot have, or no URL.
        """
        values = REGISTRY_CONFIG.defaults() | REGISTRY_CONFIG.parse(texts)

        def optional(name: str) -> str | None:
            value = values[f"schema.registry.{name}"]
            return None if value is None else str(value)

        found = [_url(each.strip()) for each in (optional("url") or "").split(",") if each.strip()]
        if not found:
            raise ConfigError(f"{URL} is missing, as in {URL}=http://127.0.0.1:8081")
        user = optional("basic.auth.user.info") or next((each for _, each in found if each), None)
        return cls(
            urls=tuple(url for url, _ in found),
            authorization=_authorization(user, optional("bearer.auth.token")),
            ca_file=optional("ssl.ca.location"),
            certificate_file=optional("ssl.certificate.location"),
            key_file=optional("ssl.key.location"),
            timeout_ms=int(str(values["schema.registry.request.timeout.ms"])),
        )

    @staticmethod
    def split(texts: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
        """Return the keys of a client of brokers, and those of the registry."""
        ours = {name: text for name, text in texts.items() if name.startswith("schema.registry.")}
        return {name: text for name, text in texts.items() if name not in ours}, ours


def _url(text: str) -> tuple[str, str | None]:
    """Return a URL without its login, and the login."""
    try:
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port, parts = None, None, urlsplit("")
    if parts.scheme not in ("http", "https") or not host or parts.query or parts.fragment:
        raise ConfigError(f"{URL} has an entry that is no URL like http://127.0.0.1:8081")
    name = f"[{host}]" if ":" in host else host
    url = f"{parts.scheme}://{name}{f':{port}' if port else ''}{parts.path.rstrip('/')}"
    if parts.username is None:
        return url, None
    return url, f"{unquote(parts.username)}:{unquote(parts.password or '')}"


def _authorization(user: str | None, token: str | None) -> str | None:
    if user and token:
        raise ConfigError(
            "both a user and a token for the schema registry: leave out "
            "schema.registry.basic.auth.user.info or schema.registry.bearer.auth.token"
        )
    if user:
        if ":" not in user:
            raise ConfigError("schema.registry.basic.auth.user.info is not NAME:PASSWORD")
        return f"Basic {base64.b64encode(user.encode()).decode()}"
    if token and not (token.isascii() and token.isprintable()):
        raise ConfigError("schema.registry.bearer.auth.token has characters that no header takes")
    return f"Bearer {token}" if token else None
