"""Security keys: honoured, or an error; a warning would leave a port open that looks closed."""

import pytest

from headrace.config.properties import PropertyEntry
from headrace.ingest.agent.component_type import component_names, find_component
from headrace.ingest.settings import SettingError, Settings
from testkit.sample.ingest_agent import assemble_text

# What Flume's components call their security, over all of its versions.
FLUME_KEYS = (
    *("ssl", "enableSSL", "keystore", "keystore-password", "keystorePassword", "keystore-type"),
    *("exclude-protocols", "excludeProtocols", "include-protocols", "exclude-cipher-suites"),
    *("include-cipher-suites", "SslContextFactory.needClientAuth", "truststore"),
    *("truststore-password", "truststore-type", "trust-all-certs", "ipFilter", "ipFilterRules"),
    *("kerberos", "agent-principal", "agent-keytab", "client-principal", "server-principal"),
    *("hdfs.kerberosPrincipal", "hdfs.kerberosKeytab", "hdfs.proxyUser", "auth.proxyUser"),
    *("password", "passwordFile", "security.protocol", "encryption.keyProvider"),
    *("encryption.cipherProvider", "encryption.keyProvider.keyStoreFile"),
)
_SERVER = {
    *("ssl", "keystore", "keystore-password", "keystore-type"),
    *("exclude-protocols", "include-protocols"),
}
_CLIENT = {
    *("ssl", "truststore", "truststore-password", "truststore-type", "trust-all-certs"),
    *("exclude-protocols", "include-protocols"),
}
# What each component does honour; each has a test of its own that sees it work.
HONOURED = {
    ("source", "avro"): _SERVER,
    ("source", "thrift"): _SERVER,
    ("source", "http"): _SERVER | {"enableSSL", "keystorePassword", "excludeProtocols"},
    ("source", "syslogtcp"): _SERVER,
    ("source", "multiport_syslogtcp"): _SERVER,
    ("sink", "avro"): _CLIENT,
    ("sink", "thrift"): _CLIENT,
    ("source", "mysql_cdc"): {"password"},
    ("source", "postgres_cdc"): {"password"},
    ("source", "sql"): {"password"},
    ("sink", "jdbc"): {"password"},
    ("sink", "sql"): {"password"},
}
COMPONENTS = [(kind, name) for kind, names in component_names().items() for name in names]


@pytest.mark.parametrize(("kind", "name"), COMPONENTS)
def test_a_security_key_is_honoured_or_an_error(kind: str, name: str) -> None:
    declared = find_component(kind, name).SETTINGS
    accepted = set()
    for key in FLUME_KEYS:
        _, mistakes = Settings.read(declared, {key: PropertyEntry("true", 1)}, "it")
        if key not in {mistake.key for mistake in mistakes}:
            accepted.add(key)
    by_prefix = {key for key in FLUME_KEYS if key.startswith("encryption.")}
    if (kind, name) in {("channel", "file"), ("channel", "spillablememory")}:
        accepted -= by_prefix  # the channel itself reads them: see the next test
    assert accepted == HONOURED.get((kind, name), set())


def test_a_key_provider_of_java_is_an_error_of_the_file_channel() -> None:
    text = """
    a1.channels = c1
    a1.channels.c1.type = file
    a1.channels.c1.encryption.keyFile = /k
    a1.channels.c1.encryption.activeKey = k
    a1.channels.c1.encryption.keyProvider = JCEKSFILE
    """
    assert any("encryption.keyProvider" in each.message for each in assemble_text(text).errors)


@pytest.mark.parametrize(
    "key", ["ssl.truststore.password", "ssl.keystore.type", "sasl.kerberos.service.name"]
)
@pytest.mark.parametrize(("kind", "role"), [("sink", "producer"), ("source", "consumer")])
def test_a_kafka_client_refuses_security_that_it_does_not_have(
    kind: str, role: str, key: str
) -> None:
    component = find_component(kind, "kafka")
    texts = {"kafka.bootstrap.servers": "b:1", f"kafka.{role}.{key}": "x", "kafka.topic": "t"}
    texts |= {"kafka.topics": "t"} if kind == "source" else {}
    settings = Settings.from_texts(component.SETTINGS, texts)
    with pytest.raises(SettingError, match=key):
        component("it", settings)


def test_an_error_of_a_security_key_says_what_to_do() -> None:
    text = """
    a1.sources = r1
    a1.channels = c1
    a1.channels.c1.type = memory
    a1.sources.r1.type = netcat
    a1.sources.r1.bind = 127.0.0.1
    a1.sources.r1.port = 1
    a1.sources.r1.channels = c1
    a1.sources.r1.ssl = true
    """
    assembly = assemble_text(text)
    (problem,) = assembly.errors
    assert "source r1" in problem.message
    assert "ssl is not supported" in problem.message
    assert "remove it" in problem.message
    assert not assembly.sources


def test_a_key_store_without_ssl_is_an_error() -> None:
    text = """
    a1.sources = r1
    a1.channels = c1
    a1.channels.c1.type = memory
    a1.sources.r1.type = http
    a1.sources.r1.port = 1
    a1.sources.r1.channels = c1
    a1.sources.r1.keystore = /k.pem
    """
    (problem,) = assemble_text(text).errors
    assert "keystore has no effect without ssl = true" in problem.message
