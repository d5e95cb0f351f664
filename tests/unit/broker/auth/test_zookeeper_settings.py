"""The login, ACLs and TLS to ZooKeeper that settings ask for."""

import pytest

from headrace.broker.auth.zookeeper_settings import zookeeper_access
from headrace.broker.config.settings import BrokerSettings
from headrace.cluster.zookeeper.zookeeper_access import ZooKeeperAccess, ZooKeeperLogin
from headrace.model.error import ConfigError


@pytest.fixture
def user_file(tmp_path):
    path = tmp_path / "zookeeper.user"
    path.write_text("broker=secret\n")
    path.chmod(0o600)
    return str(path)


def test_nothing_is_asked_for_by_default():
    assert zookeeper_access(BrokerSettings({})) == ZooKeeperAccess()


def test_the_user_comes_from_its_file(user_file):
    access = zookeeper_access(
        BrokerSettings(
            {
                "headrace.zookeeper.user.file": user_file,
                "headrace.zookeeper.auth.scheme": "digest",
                "zookeeper.set.acl": "true",
            }
        )
    )

    assert access == ZooKeeperAccess(ZooKeeperLogin("digest", "broker", "secret"), set_acl=True)
    assert "secret" not in repr(access)


def test_acls_need_an_identity():
    with pytest.raises(ConfigError, match=r"write headrace\.zookeeper\.user\.file"):
        zookeeper_access(BrokerSettings({"zookeeper.set.acl": "true"}))


def test_tls_without_a_certificate_is_no_identity():
    settings = {"zookeeper.set.acl": "true", "zookeeper.ssl.client.enable": "true"}

    with pytest.raises(ConfigError, match=r"zookeeper\.ssl\.keystore\.location"):
        zookeeper_access(BrokerSettings(settings))


def test_tls_checks_the_host_unless_that_is_switched_off():
    enabled = {"zookeeper.ssl.client.enable": "true"}
    lenient = {**enabled, "zookeeper.ssl.endpoint.identification.algorithm": ""}

    assert zookeeper_access(BrokerSettings(enabled)).tls.check_hostname
    assert not zookeeper_access(BrokerSettings(lenient)).tls.check_hostname


def test_a_missing_file_is_named():
    settings = {
        "zookeeper.ssl.client.enable": "true",
        "zookeeper.ssl.truststore.location": "/nowhere/ca.pem",
    }

    with pytest.raises(ConfigError, match=r"/nowhere/ca\.pem"):
        zookeeper_access(BrokerSettings(settings))
