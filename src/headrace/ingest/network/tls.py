"""TLS settings of sources and sinks, with Flume's names."""

import ssl

from headrace.ingest.settings import Setting, Settings, flag, secret, text

SERVER_TLS: tuple[Setting, ...] = (
    flag("ssl", "Encrypt connections.", False),
    text("keystore", "A PEM file with certificate and key."),
    secret("keystore-password", "The key's password."),
    text("keystore-type", "Only PEM.", "PEM"),
    text("exclude-protocols", "Ignored: TLS 1.2 and newer are used.", None),
)
CLIENT_TLS: tuple[Setting, ...] = (
    flag("ssl", "Encrypt connections.", False),
    flag("trust-all-certs", "Trust every certificate.", False),
    text("truststore", "A PEM file with the trusted authorities; default: the system's."),
    secret("truststore-password", "Ignored: PEM files have none."),
    text("truststore-type", "Only PEM.", "PEM"),
    text("exclude-protocols", "Ignored: TLS 1.2 and newer are used.", None),
)


def server_tls(settings: Settings) -> ssl.SSLContext | None:
    """Return the TLS context of a server; None without `ssl`.

    Raises:
        SettingError: the key store is missing or cannot be read.
    """
    if not settings.flag("ssl"):
        return None
    store = settings.optional("keystore")
    if store is None:
        raise settings.wrong(
            "keystore", "ssl needs a keystore: a PEM file with certificate and key"
        )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(store, password=settings.optional("keystore-password"))
    except (OSError, ssl.SSLError) as error:
        raise settings.wrong(
            "keystore",
            f"keystore {store} cannot be read as PEM ({error}): Java's JKS must be converted",
        ) from None
    return context


def client_tls(settings: Settings) -> ssl.SSLContext | None:
    """Return the TLS context of a client; None without `ssl`.

    Raises:
        SettingError: the trust store cannot be read.
    """
    if not settings.flag("ssl"):
        return None
    context = ssl.create_default_context()
    if settings.flag("trust-all-certs"):
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    store = settings.optional("truststore")
    if store is not None:
        try:
            context.load_verify_locations(store)
        except (OSError, ssl.SSLError) as error:
            raise settings.wrong(
                "truststore", f"truststore {store} cannot be read: {error}"
            ) from None
    return context
