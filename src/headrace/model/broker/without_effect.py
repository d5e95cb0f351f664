"""Keys of Apache Kafka's broker that have no effect here, by the reason.

Kafka's tools and files name them, so they are declared like all others: described, validated, and
taken from a file or, where Kafka takes them at run time, from AlterConfigs. A line per key: its
name, its type, Kafka's default (`-` for none, `''` for an empty one) and `dynamic` if Kafka lets it
change while a broker runs. A key that another file of this folder declares is left out.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from headrace.model.broker.key import broker_key
from headrace.model.config import ConfigKey, ConfigType

_EMPTY = "''"
_NONE = "-"

_KEYS: Mapping[str, str] = {
    "a transaction is verified without retries": """
        add.partitions.to.txn.retry.backoff.max.ms int 100
        add.partitions.to.txn.retry.backoff.ms int 20
    """,
    "no Java class can be loaded": """
        alter.config.policy.class.name class -
        client.quota.callback.class class -
        config.providers list '' dynamic
        create.topic.policy.class.name class -
        principal.builder.class class - dynamic
        security.providers string -
    """,
    "rates are counted over 11 windows of one second": """
        alter.log.dirs.replication.quota.window.num int 11
        alter.log.dirs.replication.quota.window.size.seconds int 1
        controller.quota.window.num int 11
        controller.quota.window.size.seconds int 1
        quota.window.num int 11
        quota.window.size.seconds int 1
        replication.quota.window.num int 11
        replication.quota.window.size.seconds int 1
    """,
    "one event loop serves all connections, and its threads are few and fixed": """
        background.threads int 10 dynamic
        group.coordinator.threads int 4
        num.io.threads int 8 dynamic
        num.network.threads int 3 dynamic
    """,
    "the controller is elected through ZooKeeper; one broker alone is its own": """
        broker.heartbeat.interval.ms int 2000
        broker.session.timeout.ms int 9000
        controller.listener.names list -
        controller.quorum.append.linger.ms int 25
        controller.quorum.auto.join.enable boolean false
        controller.quorum.bootstrap.servers list ''
        controller.quorum.election.backoff.max.ms int 1000
        controller.quorum.election.timeout.ms int 1000
        controller.quorum.fetch.timeout.ms int 2000
        controller.quorum.request.timeout.ms int 2000
        controller.quorum.retry.backoff.ms int 20
        controller.quorum.voters list ''
        controller.socket.timeout.ms int 30000
        early.start.listeners list -
        initial.broker.registration.timeout.ms int 60000
        metadata.log.dir string -
        metadata.log.max.record.bytes.between.snapshots long 20971520
        metadata.log.max.snapshot.interval.ms long 3600000
        metadata.log.segment.bytes int 1073741824
        metadata.log.segment.ms long 604800000
        metadata.max.idle.interval.ms int 500
        metadata.max.retention.bytes long 104857600
        metadata.max.retention.ms long 604800000
        process.roles list -
        sasl.mechanism.controller.protocol string GSSAPI
    """,
    "delegation tokens are not served": """
        delegation.token.expiry.check.interval.ms long 3600000
        delegation.token.expiry.time.ms long 86400000
        delegation.token.max.lifetime.ms long 604800000
        delegation.token.secret.key password -
    """,
    "requests that wait are woken one by one, and need no purging": """
        delete.records.purgatory.purge.interval.requests int 1
        fetch.purgatory.purge.interval.requests int 1000
        producer.purgatory.purge.interval.requests int 1000
    """,
    "the broker chooses the sizes of its buffers itself": """
        log.cleaner.io.buffer.load.factor double 0.9 dynamic
        log.cleaner.io.buffer.size int 524288 dynamic
        offsets.load.buffer.size int 5242880
        transaction.state.log.load.buffer.size int 5242880
    """,
    "a coordinator's records are appended at once": """
        group.coordinator.append.linger.ms int -1
    """,
    "the feature group.version switches the consumer protocol on and off": """
        group.coordinator.rebalance.protocols list classic,consumer,streams
    """,
    "share groups are not served": """
        group.share.assignors list simple
        group.share.delivery.count.limit int 5
        group.share.heartbeat.interval.ms int 5000
        group.share.max.heartbeat.interval.ms int 15000
        group.share.max.record.lock.duration.ms int 60000
        group.share.max.session.timeout.ms int 60000
        group.share.max.share.sessions int 2000
        group.share.max.size int 200
        group.share.min.heartbeat.interval.ms int 5000
        group.share.min.record.lock.duration.ms int 15000
        group.share.min.session.timeout.ms int 45000
        group.share.partition.max.record.locks int 2000
        group.share.record.lock.duration.ms int 30000
        group.share.session.timeout.ms int 45000
        share.coordinator.append.linger.ms int -1
        share.coordinator.load.buffer.size int 5242880
        share.coordinator.snapshot.update.records.per.snapshot int 500
        share.coordinator.state.topic.compression.codec int 0
        share.coordinator.state.topic.min.isr short 2
        share.coordinator.state.topic.num.partitions int 50
        share.coordinator.state.topic.replication.factor short 3
        share.coordinator.state.topic.segment.bytes int 104857600
        share.coordinator.threads int 1
        share.coordinator.write.timeout.ms int 5000
        share.fetch.purgatory.purge.interval.requests int 1000
    """,
    "streams groups are not served": """
        group.streams.heartbeat.interval.ms int 5000
        group.streams.initial.rebalance.delay.ms int 3000
        group.streams.max.heartbeat.interval.ms int 15000
        group.streams.max.session.timeout.ms int 60000
        group.streams.max.size int 2147483647
        group.streams.max.standby.replicas int 2
        group.streams.min.heartbeat.interval.ms int 5000
        group.streams.min.session.timeout.ms int 45000
        group.streams.num.standby.replicas int 0
        group.streams.session.timeout.ms int 45000
    """,
    "metrics are read at headrace.admin.listener": """
        kafka.metrics.polling.interval.secs int 10
        kafka.metrics.reporters list ''
        metric.reporters list - dynamic
        metrics.num.samples int 2
        metrics.recording.level string INFO
        metrics.sample.window.ms long 30000
    """,
    "a broker with a failed directory hands over its leaders at once": """
        log.dir.failure.timeout.ms long 30000
    """,
    "log.flush.offset.checkpoint.interval.ms is for both": """
        log.flush.start.offset.checkpoint.interval.ms int 60000
    """,
    "max.connections and max.connections.per.ip are the limits of connections": """
        max.connection.creation.rate int 2147483647 dynamic
        max.connections.per.ip.overrides string '' dynamic
    """,
    "a DescribeTopicPartitions returns as many partitions as its ResponsePartitionLimit says, at "
    "most 2000": """
        max.request.partition.size.limit int 2000
    """,
    "offsets are written uncompressed": """
        offsets.topic.compression.codec int 0
    """,
    "records are kept on the brokers' own disks, there is no tiered storage": """
        remote.fetch.max.wait.ms int 500 dynamic
        remote.list.offsets.request.timeout.ms long 30000 dynamic
        remote.log.index.file.cache.total.size.bytes long 1073741824 dynamic
        remote.log.manager.copier.thread.pool.size int 10 dynamic
        remote.log.manager.copy.max.bytes.per.second long 9223372036854775807 dynamic
        remote.log.manager.copy.quota.window.num int 11
        remote.log.manager.copy.quota.window.size.seconds int 1
        remote.log.manager.expiration.thread.pool.size int 10 dynamic
        remote.log.manager.fetch.max.bytes.per.second long 9223372036854775807 dynamic
        remote.log.manager.fetch.quota.window.num int 11
        remote.log.manager.fetch.quota.window.size.seconds int 1
        remote.log.manager.follower.thread.pool.size int 2 dynamic
        remote.log.manager.task.interval.ms long 30000
        remote.log.manager.thread.pool.size int 2
        remote.log.metadata.custom.metadata.max.bytes int 128
        remote.log.metadata.manager.class.name string -
        remote.log.metadata.manager.class.path string -
        remote.log.metadata.manager.impl.prefix string rlmm.config.
        remote.log.metadata.manager.listener.name string -
        remote.log.reader.max.pending.tasks int 100
        remote.log.reader.threads int 10 dynamic
        remote.log.storage.manager.class.name string -
        remote.log.storage.manager.class.path string -
        remote.log.storage.manager.impl.prefix string rsm.config.
        remote.log.storage.system.enable boolean false
    """,
    "the kernel sizes socket buffers by itself": """
        replica.socket.receive.buffer.bytes int 65536
        socket.receive.buffer.bytes int 102400
        socket.send.buffer.bytes int 102400
    """,
    "brokers give up on each other by replica.socket.timeout.ms": """
        request.timeout.ms int 30000
    """,
    "SCRAM users are in the cluster's state, those of PLAIN in headrace.sasl.plain.users.file": """
        sasl.client.callback.handler.class class -
        sasl.jaas.config password - dynamic
        sasl.login.callback.handler.class class -
        sasl.login.class class -
        sasl.login.connect.timeout.ms int -
        sasl.login.read.timeout.ms int -
        sasl.login.refresh.buffer.seconds short 300 dynamic
        sasl.login.refresh.min.period.seconds short 60 dynamic
        sasl.login.refresh.window.factor double 0.8 dynamic
        sasl.login.refresh.window.jitter double 0.05 dynamic
        sasl.login.retry.backoff.max.ms long 10000
        sasl.login.retry.backoff.ms long 100
        sasl.server.callback.handler.class class -
        sasl.server.max.receive.size int 524288
    """,
    "Kerberos (GSSAPI) is not served": """
        sasl.kerberos.kinit.cmd string /usr/bin/kinit dynamic
        sasl.kerberos.min.time.before.relogin long 60000 dynamic
        sasl.kerberos.principal.to.local.rules list DEFAULT dynamic
        sasl.kerberos.service.name string - dynamic
        sasl.kerberos.ticket.renew.jitter double 0.05 dynamic
        sasl.kerberos.ticket.renew.window.factor double 0.8 dynamic
    """,
    "OAUTHBEARER is not served": """
        sasl.oauthbearer.assertion.algorithm string RS256
        sasl.oauthbearer.assertion.claim.aud string -
        sasl.oauthbearer.assertion.claim.exp.seconds int 300
        sasl.oauthbearer.assertion.claim.iss string -
        sasl.oauthbearer.assertion.claim.jti.include boolean false
        sasl.oauthbearer.assertion.claim.nbf.seconds int 60
        sasl.oauthbearer.assertion.claim.sub string -
        sasl.oauthbearer.assertion.file string -
        sasl.oauthbearer.assertion.private.key.file string -
        sasl.oauthbearer.assertion.private.key.passphrase password -
        sasl.oauthbearer.assertion.template.file string -
        sasl.oauthbearer.client.credentials.client.id string -
        sasl.oauthbearer.client.credentials.client.secret password -
        sasl.oauthbearer.clock.skew.seconds int 30
        sasl.oauthbearer.expected.audience list ''
        sasl.oauthbearer.expected.issuer string -
        sasl.oauthbearer.jwks.endpoint.refresh.ms long 3600000
        sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms long 10000
        sasl.oauthbearer.jwks.endpoint.retry.backoff.ms long 100
        sasl.oauthbearer.jwks.endpoint.url string -
        sasl.oauthbearer.jwt.retriever.class class -
        sasl.oauthbearer.jwt.validator.class class -
        sasl.oauthbearer.scope string -
        sasl.oauthbearer.scope.claim.name string scope
        sasl.oauthbearer.sub.claim.name string sub
        sasl.oauthbearer.token.endpoint.url string -
    """,
    "the kernel's own timeout of a connection counts": """
        socket.connection.setup.timeout.max.ms long 30000
        socket.connection.setup.timeout.ms long 10000
    """,
    "certificates and keys are PEM files, and OpenSSL chooses the protocol and the cipher": """
        ssl.allow.dn.changes boolean false
        ssl.allow.san.changes boolean false
        ssl.cipher.suites list '' dynamic
        ssl.enabled.protocols list TLSv1.2,TLSv1.3 dynamic
        ssl.engine.factory.class class - dynamic
        ssl.key.password password - dynamic
        ssl.keymanager.algorithm string SunX509 dynamic
        ssl.keystore.certificate.chain password - dynamic
        ssl.keystore.key password - dynamic
        ssl.keystore.password password - dynamic
        ssl.principal.mapping.rules string DEFAULT
        ssl.protocol string TLSv1.3 dynamic
        ssl.provider string - dynamic
        ssl.secure.random.implementation string - dynamic
        ssl.trustmanager.algorithm string PKIX dynamic
        ssl.truststore.certificates password - dynamic
        ssl.truststore.password password - dynamic
    """,
    "every transaction is verified": """
        transaction.partition.verification.enable boolean true dynamic
    """,
    "two-phase commit is not served": """
        transaction.two.phase.commit.enable boolean false
    """,
    "zookeeper.ssl.client.enable alone switches TLS on": """
        zookeeper.clientCnxnSocket string -
    """,
}


def keys_without_effect(declared: Iterable[str]) -> list[ConfigKey]:
    """Return the keys, without those that are declared elsewhere."""
    known = frozenset(declared)
    return [
        _key(line.split(), reason)
        for reason, lines in _KEYS.items()
        for line in lines.strip().splitlines()
        if line.split()[0] not in known
    ]


def _key(words: list[str], reason: str) -> ConfigKey:
    name, type_name, default, *rest = words
    key = broker_key(
        name,
        ConfigType[type_name.upper()],
        None,
        "Taken for compatibility.",
        dynamic=bool(rest),
        without_effect=reason,
    )
    if default == _NONE:
        return key
    text = "" if default == _EMPTY else default
    return replace(key, default=key.parse(text))
