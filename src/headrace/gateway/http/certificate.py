"""The certificate that a gateway serves with."""

import ssl
from pathlib import Path

from headrace.model.error import ConfigError


def check_certificate(certificate: Path | None, key: Path | None) -> None:
    """Read a certificate and its key before anything listens.

    Raises:
        ConfigError: a file is missing, or the two do not belong together.
    """
    if certificate is None:
        if key is not None:
            raise ConfigError("--tls-key needs its certificate: add --tls-certificate FILE")
        return
    try:
        ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"the certificate in {certificate} cannot be used: {error}") from error
