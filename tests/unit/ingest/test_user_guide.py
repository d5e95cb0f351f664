"""Configurations as Flume's user guide has its users write them: each is understood as it is.

Written by us after the guide's examples, one for each part; hosts and paths are ours.
"""

import pytest

from headrace.ingest.plan import Severity
from headrace.testing.ingest_agent import assemble_text

MEMORY = "a1.channels = c1\na1.channels.c1.type = memory\n"
LOGGER = "a1.sinks = k1\na1.sinks.k1.type = logger\na1.sinks.k1.channel = c1\n"
SEQ = "a1.sources = r1\na1.sources.r1.type = seq\na1.sources.r1.channels = c1\n"

SOURCES = {
    "avro": "type = avro\nbind = 0.0.0.0\nport = 4141",
    "avro filtered by the firewall": "type = avro\nbind = 0.0.0.0\nport = 4141\nthreads = 10",
    "thrift": "type = thrift\nbind = 0.0.0.0\nport = 4141",
    "exec": "type = exec\ncommand = tail -F /var/log/secure",
    "exec in a shell": (
        "type = exec\nshell = /bin/bash -c\ncommand = for i in /path/*.txt; do cat $i; done"
    ),
    "spooldir": "type = spooldir\nspoolDir = /var/log/apache/flumeSpool\nfileHeader = true",
    "TAILDIR": (
        "type = TAILDIR\npositionFile = /var/log/flume/taildir_position.json\n"
        "filegroups = f1 f2\nfilegroups.f1 = /var/log/test1/example.log\n"
        "headers.f1.headerKey1 = value1\nfilegroups.f2 = /var/log/test2/.*log.*\n"
        "headers.f2.headerKey1 = value2\nheaders.f2.headerKey2 = value2-2\n"
        "fileHeader = true\nmaxBatchCount = 1000"
    ),
    "kafka": (
        "type = org.apache.flume.source.kafka.KafkaSource\nbatchSize = 100\n"
        "batchDurationMillis = 2000\nkafka.bootstrap.servers = localhost:9092\n"
        "kafka.topics = test1, test2\nkafka.consumer.group.id = custom.g.id"
    ),
    "kafka by an expression": (
        "type = org.apache.flume.source.kafka.KafkaSource\nbatchSize = 100\n"
        "kafka.bootstrap.servers = localhost:9092\nkafka.topics.regex = ^topic[0-9]$"
    ),
    "netcat": "type = netcat\nbind = 0.0.0.0\nport = 6666",
    "netcatudp": "type = netcatudp\nbind = 0.0.0.0\nport = 6666",
    "seq": "type = seq",
    "syslogtcp": "type = syslogtcp\nport = 5140\nhost = localhost",
    "multiport_syslogtcp": (
        "type = multiport_syslogtcp\nhost = 0.0.0.0\nports = 10001 10002 10003\nportHeader = port"
    ),
    "syslogudp": "type = syslogudp\nport = 5140\nhost = localhost",
    "http": (
        "type = http\nport = 5140\nhandler = org.example.rest.RestHandler\n"
        "handler.nickname = random props"
    ),
    "http with Flume's handler": (
        "type = http\nport = 5140\nhandler = org.apache.flume.source.http.JSONHandler"
    ),
    "stress": (
        "type = org.apache.flume.source.StressSource\nsize = 10240\nmaxTotalEvents = 1000000"
    ),
}
SINKS = {
    "hdfs": (
        "type = hdfs\nhdfs.path = /flume/events/%y-%m-%d/%H%M/%S\nhdfs.filePrefix = events-\n"
        "hdfs.round = true\nhdfs.roundValue = 10\nhdfs.roundUnit = minute"
    ),
    "avro": "type = avro\nhostname = 10.10.10.10\nport = 4545",
    "thrift": "type = thrift\nhostname = 10.10.10.10\nport = 4545",
    "file_roll": "type = file_roll\nsink.directory = /var/log/flume",
    "null": "type = null",
    "logger": "type = logger",
    "kafka": (
        "type = org.apache.flume.sink.kafka.KafkaSink\nkafka.topic = mytopic\n"
        "kafka.bootstrap.servers = localhost:9092\nkafka.flumeBatchSize = 20\n"
        "kafka.producer.acks = 1\nkafka.producer.linger.ms = 1\n"
        "kafka.producer.compression.type = snappy"
    ),
    "http": (
        "type = http\nendpoint = http://localhost:8080/someuri\nconnectTimeout = 2000\n"
        "requestTimeout = 2000\nacceptHeader = application/json\n"
        "contentTypeHeader = application/json\ndefaultBackoff = true\ndefaultRollback = true\n"
        "defaultIncrementMetrics = false\nbackoff.4XX = false\nrollback.4XX = false\n"
        "incrementMetrics.4XX = true\nbackoff.200 = false\nrollback.200 = false\n"
        "incrementMetrics.200 = true"
    ),
}
CHANNELS = {
    "memory": (
        "type = memory\ncapacity = 10000\ntransactionCapacity = 10000\n"
        "byteCapacityBufferPercentage = 20\nbyteCapacity = 800000"
    ),
    "kafka": (
        "type = org.apache.flume.channel.kafka.KafkaChannel\n"
        "kafka.bootstrap.servers = kafka-1:9092,kafka-2:9092,kafka-3:9092\n"
        "kafka.topic = channel1\nkafka.consumer.group.id = flume-consumer"
    ),
    "file": "type = file\ncheckpointDir = /mnt/flume/checkpoint\ndataDirs = /mnt/flume/data",
    "spillable": (
        "type = SPILLABLEMEMORY\nmemoryCapacity = 10000\noverflowCapacity = 1000000\n"
        "byteCapacity = 800000\ncheckpointDir = /mnt/flume/checkpoint\ndataDirs = /mnt/flume/data"
    ),
}
REGEX_MILLIS = "org.apache.flume.interceptor.RegexExtractorInterceptorMillisSerializer"
SOURCE_EXTRAS = {
    "interceptors": (
        "interceptors = i1 i2\n"
        "interceptors.i1.type = org.apache.flume.interceptor.HostInterceptor$Builder\n"
        "interceptors.i1.preserveExisting = false\ninterceptors.i1.hostHeader = hostname\n"
        "interceptors.i2.type = org.apache.flume.interceptor.TimestampInterceptor$Builder"
    ),
    "static": (
        "interceptors = i1\ninterceptors.i1.type = static\ninterceptors.i1.key = datacenter\n"
        "interceptors.i1.value = NEW_YORK"
    ),
    "search and replace": (
        "interceptors = sr\ninterceptors.sr.type = search_replace\n"
        "interceptors.sr.searchPattern = ^[A-Za-z0-9_]+\ninterceptors.sr.replaceString ="
    ),
    "search and replace with groups": (
        "interceptors = sr\ninterceptors.sr.type = search_replace\n"
        "interceptors.sr.searchPattern = The quick brown ([a-z]+) jumped over the lazy ([a-z]+)\n"
        "interceptors.sr.replaceString = The hungry $2 ate the careless $1"
    ),
    "regex extractor": (
        "interceptors = i1\ninterceptors.i1.type = regex_extractor\n"
        "interceptors.i1.regex = (\\\\d):(\\\\d):(\\\\d)\ninterceptors.i1.serializers = s1 s2 s3\n"
        "interceptors.i1.serializers.s1.name = one\ninterceptors.i1.serializers.s2.name = two\n"
        "interceptors.i1.serializers.s3.name = three"
    ),
    "regex extractor of times": (
        "interceptors = i1\ninterceptors.i1.type = regex_extractor\n"
        "interceptors.i1.regex = ^(?:\\\\n)?(\\\\d\\\\d\\\\d\\\\d-\\\\d\\\\d-\\\\d\\\\d)\n"
        "interceptors.i1.serializers = s1\n"
        f"interceptors.i1.serializers.s1.type = {REGEX_MILLIS}\n"
        "interceptors.i1.serializers.s1.name = timestamp\n"
        "interceptors.i1.serializers.s1.pattern = yyyy-MM-dd HH:mm"
    ),
    "replicating": "selector.type = replicating\nselector.optional = c1",
    "multiplexing": (
        "selector.type = multiplexing\nselector.header = state\nselector.mapping.CZ = c1\n"
        "selector.mapping.US = c1\nselector.default = c1"
    ),
    "load balancing": "selector.type = load_balancing\nselector.policy = round_robin",
}
GROUPS = {
    "failover": (
        "processor.type = failover\nprocessor.priority.k1 = 5\nprocessor.priority.k2 = 10\n"
        "processor.maxpenalty = 10000"
    ),
    "load_balance": (
        "processor.type = load_balance\nprocessor.backoff = true\nprocessor.selector = random"
    ),
}


def prefixed(prefix: str, text: str) -> str:
    return "".join(f"{prefix}.{line}\n" for line in text.splitlines())


def errors(text: str) -> list[str]:
    return [str(each) for each in assemble_text(text).problems if each.severity is Severity.ERROR]


@pytest.mark.parametrize("name", [name for name in SOURCES if name != "http"])
def test_sources(name: str) -> None:
    own = prefixed("a1.sources.r1", SOURCES[name])
    big = "a1.channels.c1.transactionCapacity = 100\n"
    text = f"a1.sources = r1\na1.sources.r1.channels = c1\n{own}{MEMORY}{big}{LOGGER}"
    assert errors(text) == []


def test_a_handler_of_somebody_s_own_is_named_as_unknown() -> None:
    own = prefixed("a1.sources.r1", SOURCES["http"])
    found = errors(f"a1.sources = r1\na1.sources.r1.channels = c1\n{own}{MEMORY}{LOGGER}")
    assert "there is no handler 'org.example.rest.RestHandler': write json or blob" in found[0]


@pytest.mark.parametrize("name", SINKS)
def test_sinks(name: str) -> None:
    own = prefixed("a1.sinks.k1", SINKS[name])
    assert errors(f"{SEQ}{MEMORY}a1.sinks = k1\na1.sinks.k1.channel = c1\n{own}") == []


@pytest.mark.parametrize("name", CHANNELS)
def test_channels(name: str) -> None:
    own = prefixed("a1.channels.c1", CHANNELS[name])
    assert errors(f"{SEQ}a1.channels = c1\n{own}{LOGGER}") == []


@pytest.mark.parametrize("name", SOURCE_EXTRAS)
def test_interceptors_and_selectors(name: str) -> None:
    own = prefixed("a1.sources.r1", SOURCE_EXTRAS[name])
    assert errors(f"{SEQ}{own}{MEMORY}{LOGGER}") == []


@pytest.mark.parametrize("name", GROUPS)
def test_groups(name: str) -> None:
    sinks = "a1.sinks = k1 k2\na1.sinkgroups = g1\na1.sinkgroups.g1.sinks = k1 k2\n"
    for sink in ("k1", "k2"):
        sinks += f"a1.sinks.{sink}.type = null\na1.sinks.{sink}.channel = c1\n"
    assert errors(f"{SEQ}{MEMORY}{sinks}{prefixed('a1.sinkgroups.g1', GROUPS[name])}") == []
