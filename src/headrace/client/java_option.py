"""Kafka's client configuration as Java's clients spell it, for ours.

Java's keys for a login (`sasl.jaas.config`) and for PEM files (`ssl.truststore.location`) are
understood, so that a `client.properties` can be used as it is. Java's key stores are refused.
"""

import re
from collections.abc import Mapping
from typing import Final

from headrace.model.error import ConfigError

JAAS: Final = "sasl.jaas.config"
_PEM_STORES: Final = {
    "ssl.truststore": ("ssl.ca.location",),
    "ssl.keystore": ("ssl.certificate.location", "ssl.key.location"),
}
JAVA_KEYS: Final = frozenset(
    {
        JAAS,
        *(f"{store}.{what}" for store in _PEM_STORES for what in ("location", "type", "password")),
    }
)
"""Java's keys that `from_java` replaces."""

_JAAS_LOGIN: Final = re.compile(r'(username|password)\s*=\s*"((?:[^"\\]|\\.)*)"')
_ESCAPED: Final = re.compile(r"\\(.)")


def from_java(texts: Mapping[str, str], prefix: str = "") -> dict[str, str]:
    """Return the settings with Java's keys replaced by ours; other keys stay as they are.

    Args:
        prefix: what errors write before a key, such as `kafka.`.

    Raises:
        ConfigError: a login without name and password, or a key store that is no PEM file.
    """
    found = {name: text for name, text in texts.items() if name not in JAVA_KEYS}
    if JAAS in texts:
        found |= _login(texts[JAAS], prefix)
    for store, targets in _PEM_STORES.items():
        found |= _pem(store, targets, texts, prefix)
    if "ssl.key.password" not in found and "ssl.keystore.password" in texts:
        found["ssl.key.password"] = texts["ssl.keystore.password"]
    return found


def to_java(texts: Mapping[str, str]) -> dict[str, str]:
    """Return settings as Java's client takes them, for Spark's own connector.

    Raises:
        ConfigError: a certificate and its key are in two files, which Java's client does not take.
    """
    ours = from_java(texts)
    username, password = ours.pop("sasl.username", None), ours.pop("sasl.password", None)
    if username is not None and password is not None:
        plain = ours.get("sasl.mechanism", "PLAIN") == "PLAIN"
        module = "plain.PlainLoginModule" if plain else "scram.ScramLoginModule"
        login = f"username={_quoted(username)} password={_quoted(password)}"
        ours[JAAS] = f"org.apache.kafka.common.security.{module} required {login};"
    for store, targets in _PEM_STORES.items():
        files = {ours.pop(each, None) for each in targets} - {None}
        if len(files) > 1:
            raise ConfigError(
                f"{targets[0]} and {targets[1]} are two files: Java's client takes one PEM file"
                " with both"
            )
        for each in files:
            ours |= {f"{store}.location": str(each), f"{store}.type": "PEM"}
    if ours.get("ssl.endpoint.identification.algorithm") == "none":
        ours["ssl.endpoint.identification.algorithm"] = ""
    return ours


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _login(text: str, prefix: str) -> dict[str, str]:
    """Parse a JAAS line: `...ScramLoginModule required username="a" password="b";`."""
    parts = {name: _ESCAPED.sub(r"\1", value) for name, value in _JAAS_LOGIN.findall(text)}
    if set(parts) != {"username", "password"}:
        raise ConfigError(
            f"option {prefix}{JAAS} has no username and password in double quotes; "
            f"or write {prefix}sasl.username and {prefix}sasl.password"
        )
    return {f"sasl.{name}": value for name, value in parts.items()}


def _pem(
    store: str, targets: tuple[str, ...], texts: Mapping[str, str], prefix: str
) -> dict[str, str]:
    location = texts.get(f"{store}.location")
    if location is None:
        return {}
    kind = texts.get(f"{store}.type", "PEM" if location.endswith(".pem") else "JKS").strip()
    if kind.upper() != "PEM":
        raise ConfigError(
            f"option {prefix}{store}.location is a Java key store ({kind}), which is not read "
            f"here: write {prefix}{targets[0]} with a PEM file"
        )
    return dict.fromkeys(targets, location.strip())
