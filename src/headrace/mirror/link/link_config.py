"""The link that a target's brokers need to reach a source, as configuration of the target."""

from pathlib import Path

from headrace.client.settings import ClientSettings
from headrace.model.error import ConfigError
from headrace.model.mirror_link_config import (
    BOOTSTRAP_SERVERS,
    CERTIFICATES,
    IDENTIFICATION,
    SASL_MECHANISM,
    SASL_PASSWORD,
    SASL_USERNAME,
    SECURITY_PROTOCOL,
)


def link_configs(source: ClientSettings) -> dict[str, str]:
    """Return the keys of a link with the addresses and the login of a client of the source.

    Raises:
        ConfigError: a login by certificate, which links do not have; or no file where one is named.
    """
    protocol = ("SASL_" if source.sasl is not None else "") + (
        "SSL" if source.tls is not None else "PLAINTEXT"
    )
    configs = {
        BOOTSTRAP_SERVERS: ",".join(str(each) for each in source.bootstrap),
        SECURITY_PROTOCOL: protocol,
    }
    if source.sasl is not None:
        configs |= {
            SASL_MECHANISM: source.sasl.mechanism,
            SASL_USERNAME: source.sasl.username,
            SASL_PASSWORD: source.sasl.password,
        }
    if source.tls is None:
        return configs
    if source.tls.certificate_file is not None:
        raise ConfigError(
            "ssl.keystore.location: brokers that copy log in with a name and a password; write "
            "sasl.username and sasl.password, or let a process copy"
        )
    configs[IDENTIFICATION] = "https" if source.tls.check_host else ""
    if source.tls.ca_file is not None:
        try:
            configs[CERTIFICATES] = Path(source.tls.ca_file).read_text()
        except OSError as error:
            raise ConfigError(f"{source.tls.ca_file} cannot be read: {error}") from error
    return configs
