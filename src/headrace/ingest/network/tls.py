"""TLS for sources and sinks, in Flume's words."""

import ssl

from headrace.ingest.settings import Setting, Settings, flag, secret, text

SERVER_TLS: tuple[Setting, ...] = (
    flag("ssl", "Encrypt connections.", False),
    text("keystore", "A PEM file with certificate and key."),
    secret("keystore-password", "The key's password."),
    text("keystore-type", "Only PEM.", "PEM"),
    text("exclude-protocols", "Has no meaning here: TLS 1.2 and newer.", None),
)
CLIENT_TLS: tuple[Setting, ...] = (
    flag("ssl", "Encrypt connections.", False),
    flag("trust-all-certs", "Trust everybody.", False),
    text("truststore", "A PEM file with the authorities to trust; else the system's."),
    secret("truststore-password", "Has no meaning for PEM files."),
    text("truststore-type", "Only PEM.", "PEM"),
    text("exclude-protocols", "Has no meaning here: TLS 1.2 and newer.", None),
)


def server_tls(settings: Settings) -> ssl.SSLContext | None:
    """
    Raises:
        SettingError: no key store, or one that cannot be read.
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
