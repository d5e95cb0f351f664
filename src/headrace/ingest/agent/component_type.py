"""The class that a `type` in a configuration names.

A type is one of Flume's short names (in any case), one of its Java class names, or `module:Class`
for a custom component. Modules are imported when a configuration names them, so that an agent with
a netcat source does not load Avro.
"""

import difflib
import importlib
from typing import Final

from headrace.ingest.channel import Channel
from headrace.ingest.component import Component
from headrace.ingest.interceptor import Interceptor
from headrace.ingest.selector import Selector
from headrace.ingest.sink import Sink
from headrace.ingest.sink_processor import SinkProcessor
from headrace.ingest.source import Source
from headrace.model.error import ConfigError

BASES: Final[dict[str, type[Component]]] = {
    "source": Source,
    "channel": Channel,
    "sink": Sink,
    "interceptor": Interceptor,
    "selector": Selector,
    "processor": SinkProcessor,
}

_PACKAGE = "headrace.ingest"
# The extra with a library that is not part of `ingest`.
_EXTRAS: Final = {"sqlalchemy": "sql"}

# kind: {short name: (module below headrace.ingest, class, Flume's Java classes)}
_KNOWN: Final[dict[str, dict[str, tuple[str, str, tuple[str, ...]]]]] = {
    "source": {
        "avro": ("sources.avro", "AvroSource", ("org.apache.flume.source.AvroSource",)),
        "exec": ("sources.exec", "ExecSource", ("org.apache.flume.source.ExecSource",)),
        "files": ("sources.files", "FilesSource", ()),
        "http": ("sources.http", "HttpSource", ("org.apache.flume.source.http.HTTPSource",)),
        "kafka": (
            "sources.kafka",
            "KafkaSource",
            ("org.apache.flume.source.kafka.KafkaSource",),
        ),
        "multiport_syslogtcp": (
            "sources.syslog_multiport",
            "SyslogMultiportSource",
            ("org.apache.flume.source.MultiportSyslogTCPSource",),
        ),
        "mysql_cdc": ("sources.mysql_cdc", "MysqlCdcSource", ()),
        "netcat": ("sources.netcat", "NetcatSource", ("org.apache.flume.source.NetcatSource",)),
        "netcatudp": (
            "sources.netcat_udp",
            "NetcatUdpSource",
            ("org.apache.flume.source.NetcatUdpSource",),
        ),
        "postgres_cdc": ("sources.postgres_cdc", "PostgresCdcSource", ()),
        "seq": (
            "sources.sequence",
            "SequenceSource",
            ("org.apache.flume.source.SequenceGeneratorSource",),
        ),
        "singer": ("sources.singer", "SingerSource", ()),
        "spooldir": (
            "sources.spool_directory",
            "SpoolDirectorySource",
            ("org.apache.flume.source.SpoolDirectorySource",),
        ),
        "sql": ("sources.sql", "SqlSource", ()),
        "stress": ("sources.stress", "StressSource", ("org.apache.flume.source.StressSource",)),
        "syslogtcp": (
            "sources.syslog_tcp",
            "SyslogTcpSource",
            ("org.apache.flume.source.SyslogTcpSource",),
        ),
        "syslogudp": (
            "sources.syslog_udp",
            "SyslogUdpSource",
            ("org.apache.flume.source.SyslogUDPSource",),
        ),
        "taildir": (
            "sources.taildir",
            "TaildirSource",
            ("org.apache.flume.source.taildir.TaildirSource",),
        ),
        "thrift": ("sources.thrift", "ThriftSource", ("org.apache.flume.source.ThriftSource",)),
    },
    "channel": {
        "file": (
            "channels.file",
            "FileChannel",
            ("org.apache.flume.channel.file.FileChannel",),
        ),
        "kafka": (
            "channels.kafka",
            "KafkaChannel",
            ("org.apache.flume.channel.kafka.KafkaChannel",),
        ),
        "memory": (
            "channels.memory",
            "MemoryChannel",
            ("org.apache.flume.channel.MemoryChannel",),
        ),
        "spillablememory": (
            "channels.spillable",
            "SpillableChannel",
            ("org.apache.flume.channel.SpillableMemoryChannel",),
        ),
    },
    "sink": {
        "avro": ("sinks.avro", "AvroSink", ("org.apache.flume.sink.AvroSink",)),
        "file_roll": (
            "sinks.file_roll",
            "FileRollSink",
            ("org.apache.flume.sink.RollingFileSink",),
        ),
        "hdfs": ("sinks.hdfs", "HdfsSink", ("org.apache.flume.sink.hdfs.HDFSEventSink",)),
        "http": ("sinks.http", "HttpSink", ("org.apache.flume.sink.http.HttpSink",)),
        "jdbc": ("sinks.jdbc", "JdbcSink", ()),
        "kafka": ("sinks.kafka", "KafkaSink", ("org.apache.flume.sink.kafka.KafkaSink",)),
        "logger": ("sinks.logger", "LoggerSink", ("org.apache.flume.sink.LoggerSink",)),
        "null": ("sinks.null", "NullSink", ("org.apache.flume.sink.NullSink",)),
        "singer": ("sinks.singer", "SingerSink", ()),
        "sql": ("sinks.sql", "SqlSink", ()),
        "thrift": ("sinks.thrift", "ThriftSink", ("org.apache.flume.sink.ThriftSink",)),
    },
    "interceptor": {
        "host": (
            "interceptors.host",
            "HostInterceptor",
            ("org.apache.flume.interceptor.HostInterceptor$Builder",),
        ),
        "python": ("interceptors.python", "PythonInterceptor", ()),
        "regex_extractor": (
            "interceptors.regex_extractor",
            "RegexExtractorInterceptor",
            ("org.apache.flume.interceptor.RegexExtractorInterceptor$Builder",),
        ),
        "regex_filter": (
            "interceptors.regex_filter",
            "RegexFilterInterceptor",
            ("org.apache.flume.interceptor.RegexFilteringInterceptor$Builder",),
        ),
        "remove_header": (
            "interceptors.remove_header",
            "RemoveHeaderInterceptor",
            ("org.apache.flume.interceptor.RemoveHeaderInterceptor$Builder",),
        ),
        "search_replace": (
            "interceptors.search_replace",
            "SearchReplaceInterceptor",
            ("org.apache.flume.interceptor.SearchAndReplaceInterceptor$Builder",),
        ),
        "static": (
            "interceptors.static",
            "StaticInterceptor",
            ("org.apache.flume.interceptor.StaticInterceptor$Builder",),
        ),
        "timestamp": (
            "interceptors.timestamp",
            "TimestampInterceptor",
            ("org.apache.flume.interceptor.TimestampInterceptor$Builder",),
        ),
        "uuid": (
            "interceptors.uuid",
            "UuidInterceptor",
            ("org.apache.flume.sink.solr.morphline.UUIDInterceptor$Builder",),
        ),
    },
    "selector": {
        "load_balancing": (
            "selectors.load_balancing",
            "LoadBalancingSelector",
            ("org.apache.flume.channel.LoadBalancingChannelSelector",),
        ),
        "multiplexing": (
            "selectors.multiplexing",
            "MultiplexingSelector",
            ("org.apache.flume.channel.MultiplexingChannelSelector",),
        ),
        "replicating": (
            "selectors.replicating",
            "ReplicatingSelector",
            ("org.apache.flume.channel.ReplicatingChannelSelector",),
        ),
    },
    "processor": {
        "default": (
            "processors.default",
            "DefaultSinkProcessor",
            ("org.apache.flume.sink.DefaultSinkProcessor",),
        ),
        "failover": (
            "processors.failover",
            "FailoverSinkProcessor",
            ("org.apache.flume.sink.FailoverSinkProcessor",),
        ),
        "load_balance": (
            "processors.load_balance",
            "LoadBalanceSinkProcessor",
            ("org.apache.flume.sink.LoadBalancingSinkProcessor",),
        ),
    },
}


def find_component(kind: str, type_name: str) -> type[Component]:
    """Return the class of a component.

    Args:
        kind: a key of `BASES`.

    Raises:
        ConfigError: there is no such type, or the class of `module:Class` cannot be used; the
            message says what to write instead.
    """
    known = _KNOWN[kind]
    entry = known.get(type_name.lower()) or _by_java_class(kind).get(type_name)
    if entry is not None:
        return _load(kind, f"{_PACKAGE}.{entry[0]}", entry[1])
    module, colon, class_name = type_name.partition(":")
    if colon and module and class_name:
        return _load(kind, module, class_name)
    near = difflib.get_close_matches(type_name.lower(), known, n=1)
    hint = f"; did you mean {near[0]}?" if near else f": there are {', '.join(known)}"
    raise ConfigError(
        f"there is no {kind} of type {type_name!r}{hint} (write module:Class for a custom one)"
    )


def component_names() -> dict[str, tuple[str, ...]]:
    """Return the short names of every kind."""
    return {kind: tuple(known) for kind, known in _KNOWN.items()}


def _by_java_class(kind: str) -> dict[str, tuple[str, str, tuple[str, ...]]]:
    return {java: entry for entry in _KNOWN[kind].values() for java in entry[2]}


def _load(kind: str, module_name: str, class_name: str) -> type[Component]:
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:
        if (
            module_name.startswith(_PACKAGE)
            and error.name
            and not error.name.startswith("headrace")
        ):
            extra = _EXTRAS.get(error.name, "ingest")
            raise ConfigError(
                f"the {kind} {class_name} needs {error.name}: pip install 'headrace[{extra}]'"
            ) from error
        raise ConfigError(f"cannot import {module_name}: {error}") from error
    component = getattr(module, class_name, None)
    base = BASES[kind]
    if not isinstance(component, type) or not issubclass(component, base):
        raise ConfigError(
            f"{module_name}:{class_name} is no {kind}: it must be a class derived from "
            f"{base.__module__}.{base.__name__}"
        )
    return component
