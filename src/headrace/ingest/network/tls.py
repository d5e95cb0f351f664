"""TLS settings of sources and sinks, with Flume's names."""

import ssl

from headrace.ingest.network.key_store import KeyStore
from headrace.ingest.settings import Setting, Settings, flag, secret, text

_PROTOCOLS: tuple[Setting, ...] = (
    text("exclude-protocols", "Protocols to leave out; below TLS 1.2 there is none.", "SSLv3"),
    text("include-protocols", "The only protocols to use, of TLSv1.2 and TLSv1.3."),
)
_SERVER_STORE: tuple[Setting, ...] = (
    text("keystore", "A file with certificate and key: PEM or PKCS 12."),
    text("keystore-type", "PEM or PKCS12; the file's content decides."),
)
SERVER_TLS: tuple[Setting, ...] = (
    flag("ssl", "Encrypt connections.", False),
    *_SERVER_STORE,
    secret("keystore-password", "The key's password."),
    *_PROTOCOLS,
)
# Flume's http source had names of its own before 1.9.
HTTP_TLS: tuple[Setting, ...] = (
    flag("ssl", "Encrypt connections.", False, other_names=("enableSSL",)),
    *_SERVER_STORE,
    secret("keystore-password", "The key's password.", other_names=("keystorePassword",)),
    text(
        "exclude-protocols",
        "Protocols to leave out; below TLS 1.2 there is none.",
        "SSLv3",
        other_names=("excludeProtocols",),
    ),
    _PROTOCOLS[1],
)
CLIENT_TLS: tuple[Setting, ...] = (
    flag("ssl", "Encrypt connections.", False),
    flag("trust-all-certs", "Trust every certificate.", False),
    text("truststore", "A file with the trusted authorities, PEM or PKCS 12; else the system's."),
    secret("truststore-password", "The password of a PKCS 12 file."),
    text("truststore-type", "PEM or PKCS12; the file's content decides."),
    *_PROTOCOLS,
)
_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}


def server_tls(settings: Settings) -> ssl.SSLContext | None:
    """Return the TLS context of a server; None without `ssl`.

    Raises:
        SettingError: the key store is missing or cannot be read.
    """
    if not _wanted(settings, "keystore"):
        return None
    path = settings.optional("keystore")
    if path is None:
        raise settings.wrong(
            "keystore", "ssl needs a keystore: a PEM or PKCS 12 file with certificate and key"
        )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    # A sender of syslog never reads. Were a session ticket left unread when it closes, TCP would
    # reset the connection, and the messages on their way would be lost.
    context.num_tickets = 0
    _limit_versions(context, settings)
    KeyStore(settings, "keystore", path).load_key(context)
    return context


def client_tls(settings: Settings) -> ssl.SSLContext | None:
    """Return the TLS context of a client; None without `ssl`.

    Raises:
        SettingError: the trust store cannot be read.
    """
    if not _wanted(settings, "truststore"):
        return None
    context = ssl.create_default_context()
    _limit_versions(context, settings)
    if settings.flag("trust-all-certs"):
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    path = settings.optional("truststore")
    if path is not None:
        KeyStore(settings, "truststore", path).load_trusted(context)
    return context


def _wanted(settings: Settings, store: str) -> bool:
    """Return whether to encrypt. A store without a word about ssl is an error."""
    if settings.flag("ssl"):
        return True
    if settings.optional(store) is not None and not settings.has("ssl"):
        raise settings.wrong(store, f"{store} has no effect without ssl = true")
    return False


def _limit_versions(context: ssl.SSLContext, settings: Settings) -> None:
    excluded = settings.words("exclude-protocols")
    included = settings.words("include-protocols") or list(_VERSIONS)
    allowed = [
        version for name, version in _VERSIONS.items() if name in included and name not in excluded
    ]
    if not allowed:
        key = "include-protocols" if settings.has("include-protocols") else "exclude-protocols"
        raise settings.wrong(key, f"{key} leaves no protocol: there are TLSv1.2 and TLSv1.3")
    context.minimum_version, context.maximum_version = min(allowed), max(allowed)
