"""Configurations as in Flume's user guide, one per component.

They follow the examples of the guide; hosts and paths are ours. They name machines and folders that
do not exist: `at_home` changes them to this machine, so that they can run.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

SOURCES: Final[Mapping[str, str]] = {
    "avro": "type = avro\nbind = 0.0.0.0\nport = 4141",
    "avro filtered by the firewall": "type = avro\nbind = 0.0.0.0\nport = 4141\nthreads = 10",
    "thrift": "type = thrift\nbind = 0.0.0.0\nport = 4141",
    "avro with compression": (
        "type = avro\nbind = 0.0.0.0\nport = 4141\ncompression-type = deflate"
    ),
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
    "http with blobs": (
        "type = http\nport = 5140\nhandler = org.apache.flume.sink.solr.morphline.BlobHandler"
    ),
    "http with Flume's handler": (
        "type = http\nport = 5140\nhandler = org.apache.flume.source.http.JSONHandler"
    ),
    "stress": (
        "type = org.apache.flume.source.StressSource\nsize = 10240\nmaxTotalEvents = 1000000"
    ),
}
SINKS: Final[Mapping[str, str]] = {
    "hdfs": (
        "type = hdfs\nhdfs.path = /flume/events/%y-%m-%d/%H%M/%S\nhdfs.filePrefix = events-\n"
        "hdfs.round = true\nhdfs.roundValue = 10\nhdfs.roundUnit = minute"
    ),
    "avro": "type = avro\nhostname = 10.10.10.10\nport = 4545",
    "thrift": "type = thrift\nhostname = 10.10.10.10\nport = 4545",
    "file_roll": "type = file_roll\nsink.directory = /var/log/flume",
    "file_roll with a serializer": (
        "type = file_roll\nsink.directory = /var/log/flume\nsink.serializer = text\n"
        "sink.serializer.appendNewline = false"
    ),
    "hdfs with Avro": (
        "type = hdfs\nhdfs.path = /flume/events\nhdfs.fileType = DataStream\n"
        "hdfs.fileSuffix = .avro\nserializer = avro_event\n"
        "serializer.compressionCodec = deflate"
    ),
    "hdfs by time of arrival": (
        "type = hdfs\nhdfs.path = /flume/events/%Y/%m/%d\nhdfs.useLocalTimeStamp = true\n"
        "hdfs.fileType = DataStream\nhdfs.rollInterval = 0\nhdfs.rollCount = 1"
    ),
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
CHANNELS: Final[Mapping[str, str]] = {
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
    "spillable in memory alone": (
        "type = SPILLABLEMEMORY\nmemoryCapacity = 100000\noverflowCapacity = 0\n"
        "checkpointDir = /mnt/flume/checkpoint\ndataDirs = /mnt/flume/data"
    ),
    "spillable on disk alone": (
        "type = SPILLABLEMEMORY\nmemoryCapacity = 0\noverflowCapacity = 1000000\n"
        "checkpointDir = /mnt/flume/checkpoint\ndataDirs = /mnt/flume/data"
    ),
    "file with several folders": (
        "type = file\ncheckpointDir = /mnt/flume/checkpoint\n"
        "dataDirs = /mnt/flume/data1, /mnt/flume/data2"
    ),
    "spillable": (
        "type = SPILLABLEMEMORY\nmemoryCapacity = 10000\noverflowCapacity = 1000000\n"
        "byteCapacity = 800000\ncheckpointDir = /mnt/flume/checkpoint\ndataDirs = /mnt/flume/data"
    ),
}
_MILLIS: Final = "org.apache.flume.interceptor.RegexExtractorInterceptorMillisSerializer"
SOURCE_EXTRAS: Final[Mapping[str, str]] = {
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
        f"interceptors.i1.serializers.s1.type = {_MILLIS}\n"
        "interceptors.i1.serializers.s1.name = timestamp\n"
        "interceptors.i1.serializers.s1.pattern = yyyy-MM-dd HH:mm"
    ),
    "remove header": (
        "interceptors = i1\ninterceptors.i1.type = remove_header\n"
        "interceptors.i1.withName = secret\ninterceptors.i1.fromList = a,b"
    ),
    "uuid": (
        "interceptors = i1\n"
        "interceptors.i1.type = org.apache.flume.sink.solr.morphline.UUIDInterceptor$Builder\n"
        "interceptors.i1.headerName = id\ninterceptors.i1.prefix = web-"
    ),
    "regex filter": (
        "interceptors = i1\ninterceptors.i1.type = regex_filter\n"
        "interceptors.i1.regex = ^DEBUG.*\ninterceptors.i1.excludeEvents = true"
    ),
    "replicating": "selector.type = replicating\nselector.optional = c1",
    "multiplexing": (
        "selector.type = multiplexing\nselector.header = state\nselector.mapping.CZ = c1\n"
        "selector.mapping.US = c1\nselector.default = c1"
    ),
    "load balancing": "selector.type = load_balancing\nselector.policy = round_robin",
}
GROUPS: Final[Mapping[str, str]] = {
    "failover": (
        "processor.type = failover\nprocessor.priority.k1 = 5\nprocessor.priority.k2 = 10\n"
        "processor.maxpenalty = 10000"
    ),
    "load_balance": (
        "processor.type = load_balance\nprocessor.backoff = true\nprocessor.selector = random"
    ),
}


def prefixed(prefix: str, text: str) -> str:
    """Return the lines of a component with its name as prefix.

    >>> prefixed("a1.sinks.k1", "type = null")
    'a1.sinks.k1.type = null\\n'
    """
    return "".join(f"{prefix}.{line}\n" for line in text.splitlines())


def at_home(text: str, folder: Path, *, broker: str = "127.0.0.1:9092", port: int = 0) -> str:
    """Return a configuration for this machine: below a folder, on loopback, on free ports.

    >>> at_home("bind = 0.0.0.0\\nport = 4141", Path("/tmp"))
    'bind = 127.0.0.1\\nport = 0'

    Args:
        port: the port that sinks send to; sources listen on any free one.
    """
    text = re.sub(r"(?<![\w/])/(?=(?:var|mnt|flume|path)/)", f"{folder}/", text)
    text = re.sub(r"\b0\.0\.0\.0|10\.10\.10\.10", "127.0.0.1", text)
    text = text.replace("port = 4545", f"port = {port}").replace(":8080", f":{port}")
    text = re.sub(r"\bport = (?:4141|5140|6666)\b", "port = 0", text)
    text = text.replace("10001 10002 10003", "0 0 0")
    text = re.sub(r"(?:localhost|kafka-1):9092\S*", broker, text)
    if text.startswith("type = http\nport"):
        text += "\nbind = 127.0.0.1"
    return text
