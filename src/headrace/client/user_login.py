"""The login of this user, from the file that `$HEADRACE_CLIENT_CONFIG` names, for every client.

Rule 1: what a command, program or component says itself goes before the file.
Rule 2: one that has settings for security of its own gets none of the file's: they may be for
        another cluster, which must not be sent this password.
Rule 3: so may brokers that the file does not name. Unless a user names brokers on the command
        line, beside the file, the file counts only for brokers that it names, or if it names none.
"""

from typing import Final

from headrace.client.address import parse_addresses
from headrace.client.java_option import from_java
from headrace.client.settings import CLIENT_CONFIG
from headrace.config.client_file import CLIENT_CONFIG_VARIABLE, configured_client

_SERVERS: Final = "bootstrap.servers"
_SECURITY: Final = ("security.", "sasl.", "ssl.")
WITHOUT_EFFECT: Final = frozenset(
    (
        "security.providers",
        "ssl.cipher.suites",
        "ssl.enabled.protocols",
        "ssl.keymanager.algorithm",
        "ssl.protocol",
        "ssl.provider",
        "ssl.secure.random.implementation",
        "ssl.trustmanager.algorithm",
    )
)
"""Java's keys for security that choose among what Java has, and have no effect here."""


def is_security_key(key: str) -> bool:
    """Return whether a client's key says how it logs in, or whom it trusts."""
    return key.startswith(_SECURITY)


def user_login() -> dict[str, str]:
    """Return the client settings of the file, in our client's keys; none without a file.

    Keys that only tune another client, such as `acks`, are left out. One for security that cannot
    be honoured is an error.

    Raises:
        ConfigError: the file cannot be read, or has a login that is not whole.
    """
    texts = {}
    for key, text in from_java(configured_client()).items():
        if key in CLIENT_CONFIG:
            texts[key] = text
        elif is_security_key(key) and key not in WITHOUT_EFFECT:
            CLIENT_CONFIG[key]  # raises, with the nearest key
    return texts


def login_for(brokers: str, *, secured: bool, whose: str) -> dict[str, str]:
    """Return the file's settings for a client of these brokers, without `bootstrap.servers`.

    Args:
        secured: whether the client has settings for security of its own (rule 2).
        whose: the client, in the log.

    Raises:
        ConfigError: as `user_login`, or an address cannot be read.
    """
    texts = user_login()
    named = texts.pop(_SERVERS, None)
    if named is not None and set(parse_addresses(named)).isdisjoint(parse_addresses(brokers)):
        if not secured:
            # Imported here: every client loads this file, and few have anything to log.
            import structlog

            structlog.get_logger(__name__).info(
                "client_config_not_used",
                of=whose,
                reason=f"${CLIENT_CONFIG_VARIABLE} names none of its brokers",
                brokers=brokers,
            )
        return {}
    return {key: text for key, text in texts.items() if not (secured and is_security_key(key))}
