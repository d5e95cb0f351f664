"""A broker's login, ACLs and TLS to ZooKeeper, from its settings."""

import importlib.util
from pathlib import Path
from ssl import SSLContext
from typing import cast

from headrace.broker.auth.user_file import UserFile
from headrace.broker.config.settings import BrokerSettings
from headrace.cluster.zookeeper.zookeeper_access import (
    Scheme,
    ZooKeeperAccess,
    ZooKeeperLogin,
    client_tls,
)
from headrace.model.error import ConfigError

_KEYSTORE = "zookeeper.ssl.keystore.location"
_USER_FILE = "headrace.zookeeper.user.file"


def zookeeper_access(settings: BrokerSettings) -> ZooKeeperAccess:
    """Return how the broker reaches ZooKeeper; the files are read once, here.

    Raises:
        ConfigError: a file cannot be used, or ACLs are asked for without an identity.
    """
    access = ZooKeeperAccess(
        login=_login(settings),
        tls=_tls(settings) if settings["zookeeper.ssl.client.enable"] else None,
        set_acl=settings["zookeeper.set.acl"],
    )
    if access.set_acl and access.login is None and (access.tls is None or not settings[_KEYSTORE]):
        raise ConfigError(
            f"zookeeper.set.acl needs an owner for the nodes: write {_USER_FILE}, or "
            f"zookeeper.ssl.client.enable=true and {_KEYSTORE}"
        )
    return access


def _login(settings: BrokerSettings) -> ZooKeeperLogin | None:
    path: str | None = settings[_USER_FILE]
    if not path:
        return None
    scheme = cast(Scheme, settings["headrace.zookeeper.auth.scheme"])
    if scheme == "sasl" and importlib.util.find_spec("puresasl") is None:
        raise ConfigError(
            "a SASL login to ZooKeeper needs pure-sasl: pip install 'headrace[spark]', the extra "
            "that brings what a broker needs for ZooKeeper"
        )
    return ZooKeeperLogin(scheme, *UserFile(Path(path)).only_user())


def _tls(settings: BrokerSettings) -> SSLContext:
    keystore, truststore = settings[_KEYSTORE], settings["zookeeper.ssl.truststore.location"]
    return client_tls(
        keystore=Path(keystore) if keystore else None,
        truststore=Path(truststore) if truststore else None,
        check_host=bool(settings["zookeeper.ssl.endpoint.identification.algorithm"]),
    )
