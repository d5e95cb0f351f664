"""Which rows of the table are drawn together, and what each chart says it is."""

from dataclasses import dataclass

KAFKA = "Apache Kafka"
CONNECTOR = "Spark's Kafka connector"


@dataclass(frozen=True, slots=True)
class Pick:
    """A row of the table, and what to call it beside the axis.

    Attributes:
        subject: the row that "the same" in `name` is about.
        second: the row that has the second peer's figure.
        peer_rows: the rows whose own figures are the peers', where the table has such rows.
    """

    label: str
    suite: str
    name: str
    subject: str | None = None
    second: str | None = None
    peer_rows: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PanelPlan:
    title: str
    picks: tuple[Pick, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartPlan:
    """One chart and its paragraph.

    Attributes:
        file: the name of the SVG file, without its ending.
        what: what was measured, in sentences.
        peers: as `Results.versions` names them, in the order of the legend.
        command: what measures its rows.
        axis: what grows from point to point, for a chart of lines; empty for bars.
    """

    file: str
    heading: str
    what: str
    peers: tuple[str, ...]
    panels: tuple[PanelPlan, ...]
    command: str
    axis: str = ""


_CPU = "the same, broker CPU"
_JAVA = "100-byte records, 6 partitions, Java client"
_RDKAFKA = "100-byte records, 6 partitions, confluent-kafka"
_MANY = "1,000 partitions, confluent-kafka"
_CONNECTIONS = "50 connections, one record a request"
_REPLICATED = "produce 100-byte records, 3 brokers, 3 replicas, acks={}, confluent-kafka"
_COPY = "copy of a topic at 1,000 records/s"
_SIZES = ("10 B", "100 B", "1 KiB", "10 KiB", "100 KiB")


def _broker(label: str, name: str) -> Pick:
    return Pick(label, "broker", name)


def _broker_cpu(label: str, subject: str) -> Pick:
    return Pick(label, "broker", _CPU, subject=subject)


def _cluster(label: str, name: str) -> Pick:
    return Pick(label, "cluster", name)


def _kinesis(label: str, name: str) -> Pick:
    return Pick(
        label,
        "kinesis",
        f"{name}; against kinesis-mock",
        second=f"{name}; against moto",
    )


def _copy(label: str, quantile: str) -> Pick:
    return Pick(
        label,
        "spark",
        f"{_COPY}, ours, {label.partition(',')[0]}: {quantile}",
        peer_rows=(
            f"{_COPY}, connector, micro-batch: {quantile}",
            f"{_COPY}, connector, real-time mode: {quantile}",
        ),
    )


def _series(title: str, names: dict[str, str]) -> PanelPlan:
    return PanelPlan(title, tuple(Pick(label, "scaling", name) for label, name in names.items()))


CHARTS = (
    ChartPlan(
        file="broker-throughput",
        heading="One broker: throughput",
        what="One client writes to a topic with 6 partitions and then reads it, with acks=1: "
        "the Java client's own performance tools and confluent-kafka (librdkafka). Both "
        "brokers have their default settings. With one client on 2 cores the client often "
        "sets the pace.",
        peers=(KAFKA,),
        panels=(
            PanelPlan(
                "Produce",
                (
                    _broker("100-byte records, Java client", f"produce {_JAVA}, acks=1"),
                    _broker("100-byte records, confluent-kafka", f"produce {_RDKAFKA}, acks=1"),
                    _broker(
                        "1 KiB, lz4, confluent-kafka", "produce 1 KiB records, lz4, confluent-kafka"
                    ),
                    _broker(
                        "1 KiB, zstd, confluent-kafka",
                        "produce 1 KiB records, zstd, confluent-kafka",
                    ),
                    _broker("100-byte records over 1,000 partitions", f"{_MANY}: produce over all"),
                ),
            ),
            PanelPlan(
                "Consume",
                (
                    _broker("100-byte records, Java client", f"consume {_JAVA}"),
                    _broker("100-byte records, confluent-kafka", f"consume {_RDKAFKA}"),
                    _broker("100-byte records from 1,000 partitions", f"{_MANY}: consume from all"),
                ),
            ),
            PanelPlan(
                "One record per request",
                (_broker("50 connections, bare sockets", _CONNECTIONS),),
            ),
        ),
        command="broker",
    ),
    ChartPlan(
        file="record-size",
        heading="One broker: throughput by record size",
        what="confluent-kafka writes records of one size to 6 partitions and reads them back.",
        peers=(KAFKA,),
        panels=(
            _series("Produce", {size: f"records of {size}: produce" for size in _SIZES}),
            _series("Consume", {size: f"records of {size}: consume" for size in _SIZES}),
        ),
        command="scaling",
        axis="record size",
    ),
    ChartPlan(
        file="latency",
        heading="Latency percentiles",
        what="One message at a time is sent and acknowledged, over a bare socket that costs "
        "next to nothing and with confluent-kafka; 1,000 messages per second travel from "
        "a producer to a consumer; and one message at a time is acknowledged by three "
        "replicas on three brokers.",
        peers=(KAFKA,),
        panels=(
            PanelPlan(
                "One broker, acks=1, one message at a time",
                tuple(
                    _broker(f"{client}, {each}", f"acks=1, one message at a time, {client}: {each}")
                    for client in ("bare socket", "confluent-kafka")
                    for each in ("p50", "p99")
                ),
            ),
            PanelPlan(
                "One broker, producer to consumer, 1,000 messages/s",
                tuple(
                    _broker(
                        each, f"producer to consumer, 1,000 messages/s, confluent-kafka: {each}"
                    )
                    for each in ("p50", "p99")
                ),
            ),
            PanelPlan(
                "Three brokers, 3 replicas, acks=all, one message at a time",
                tuple(
                    _cluster(each, f"3 replicas, acks=all, one message at a time: {each}")
                    for each in ("p50", "p99")
                ),
            ),
        ),
        command="broker cluster",
    ),
    ChartPlan(
        file="partitions",
        heading="One broker: scaling with partitions",
        what="confluent-kafka writes 100-byte records over all partitions of a topic and reads "
        "them back, with linger.ms=50 so that batches fill.",
        peers=(KAFKA,),
        panels=(
            _series(
                "Produce",
                {f"{n:,}": f"partitions: {n:,}, produce over all" for n in (1, 10, 100, 1000)},
            ),
            _series(
                "Consume",
                {f"{n:,}": f"partitions: {n:,}, consume from all" for n in (1, 10, 100, 1000)},
            ),
        ),
        command="scaling",
        axis="partitions",
    ),
    ChartPlan(
        file="connections",
        heading="One broker: scaling with connections",
        what="Each connection sends one record per request and the next when it has its "
        "answer, over bare sockets.",
        peers=(KAFKA,),
        panels=(
            _series(
                "Requests",
                {f"{n:,}": f"connections: {n:,}, one record per request" for n in (1, 10, 50, 200)},
            ),
        ),
        command="scaling",
        axis="connections",
    ),
    ChartPlan(
        file="consumers",
        heading="One broker: scaling with consumers",
        what="Each consumer reads the whole topic, all of them at once, over bare sockets that "
        "throw away what they read. The figure is what all of them receive together.",
        peers=(KAFKA,),
        panels=(
            _series(
                "Received by all consumers",
                {f"{n:,}": f"consumers: {n:,}, each reads all" for n in (1, 4, 16)},
            ),
        ),
        command="scaling",
        axis="consumers",
    ),
    ChartPlan(
        file="brokers",
        heading="One machine: scaling with brokers",
        what="1, 2 and 4 brokers of ours on one machine, each beside one broker of Apache Kafka, "
        "whose threads use all cores. Ready-made requests to 12 partitions without replicas are "
        "replayed by a generator that costs a small part of the brokers' CPU; the table "
        "says how much. A connection has many requests under way, which suits brokers that "
        "read many at once: compare ours with each other. On 2 cores 4 brokers have no more "
        "than 2 can use.",
        peers=(KAFKA,),
        panels=(
            _series(
                "One record per request",
                {f"{n}": f"brokers: {n}, one record per request" for n in (1, 2, 4)},
            ),
            _series(
                "50 records per request",
                {f"{n}": f"brokers: {n}, 50 records per request" for n in (1, 2, 4)},
            ),
        ),
        command="scaling",
        axis="brokers",
    ),
    ChartPlan(
        file="broker-cost",
        heading="One broker: CPU, memory and start",
        what="The CPU time and the resident memory are those of the broker's process during "
        "the runs above; a GB is 10⁹ bytes of record values as the client sent them. The "
        "start ends with the first record that is accepted.",
        peers=(KAFKA,),
        panels=(
            PanelPlan(
                "CPU per GB",
                (
                    _broker_cpu("produce, Java client", f"produce {_JAVA}, acks=1"),
                    _broker_cpu("produce, confluent-kafka", f"produce {_RDKAFKA}, acks=1"),
                    _broker_cpu(
                        "produce 1 KiB, lz4", "produce 1 KiB records, lz4, confluent-kafka"
                    ),
                    _broker_cpu(
                        "produce 1 KiB, zstd", "produce 1 KiB records, zstd, confluent-kafka"
                    ),
                    _broker_cpu("produce over 1,000 partitions", f"{_MANY}: produce over all"),
                    _broker_cpu("consume, Java client", f"consume {_JAVA}"),
                    _broker_cpu("consume, confluent-kafka", f"consume {_RDKAFKA}"),
                    _broker_cpu("consume from 1,000 partitions", f"{_MANY}: consume from all"),
                ),
            ),
            PanelPlan(
                "CPU per request",
                (_broker_cpu("50 connections, one record per request", _CONNECTIONS),),
            ),
            PanelPlan(
                "Resident memory",
                (
                    _broker("after the start", "resident memory after the start"),
                    _broker("after the produce run", "resident memory after the produce run"),
                ),
            ),
            PanelPlan(
                "Start",
                (_broker("to the first message accepted", "start to first message accepted"),),
            ),
        ),
        command="broker",
    ),
    ChartPlan(
        file="cluster",
        heading="Three brokers",
        what="Three brokers on one machine with three replicas of each partition and "
        "confluent-kafka as the client. The last panel is the time from the kill of a "
        "leader until records that are sent from then on are acknowledged.",
        peers=(KAFKA,),
        panels=(
            PanelPlan(
                "Produce 100-byte records",
                tuple(
                    _cluster(
                        f"acks={acks}",
                        _REPLICATED.format(acks),
                    )
                    for acks in ("all", "1")
                ),
            ),
            PanelPlan(
                "CPU of all brokers per GB",
                tuple(
                    Pick(
                        f"acks={acks}",
                        "cluster",
                        "the same, CPU of all brokers",
                        subject=_REPLICATED.format(acks),
                    )
                    for acks in ("all", "1")
                ),
            ),
            PanelPlan(
                "A leader is killed",
                (
                    _cluster(
                        "until records are acknowledged",
                        "leader killed, until records that are sent from then on are acknowledged",
                    ),
                ),
            ),
        ),
        command="cluster",
    ),
    ChartPlan(
        file="client",
        heading="Topics in Python: reading and writing columns",
        what="Headrace's reader and writer move Arrow columns; confluent-kafka's client moves "
        "one message at a time, or a list of them. Both talk to a Headrace broker unless "
        "the label says Apache Kafka.",
        peers=("confluent-kafka",),
        panels=(
            PanelPlan(
                "Read all columns, against consume()",
                (
                    Pick("from Headrace", "client", "read all columns; against consume()"),
                    Pick(
                        "from Apache Kafka",
                        "client",
                        "read all columns; against consume(), from Apache Kafka",
                    ),
                ),
            ),
            PanelPlan(
                "Write",
                tuple(
                    Pick(name.removeprefix("write, "), "client_write", name)
                    for name in (
                        "write, no keys; against produce()",
                        "write, by key; against produce()",
                        "write, no keys; against produce_batch()",
                    )
                ),
            ),
        ),
        command="client client_write",
    ),
    ChartPlan(
        file="spark",
        heading="Spark",
        what="Headrace's data source and Spark's own Kafka connector run in one `local[2]` "
        "session on the same topics, with their default options. The copy of a topic is a "
        "streaming query, from producer to consumer; Headrace's has micro-batches, the "
        "connector's is measured with micro-batches and in real-time mode, both at least "
        "once.",
        peers=(CONNECTOR, "the connector in real-time mode"),
        panels=(
            PanelPlan(
                "Throughput, 100-byte records",
                (
                    Pick(
                        "batch read, 20 M records",
                        "spark",
                        "batch read, count and sum(length(value)), 20,000,000 × 100 B",
                    ),
                    Pick(
                        "streaming read, 20 M records",
                        "spark",
                        "streaming read, availableNow, 20,000,000 × 100 B",
                    ),
                    Pick(
                        "batch write, 10 M rows", "spark", "batch write of 10,000,000 rows × 100 B"
                    ),
                    Pick(
                        "batch write, ours exactly once",
                        "spark",
                        "batch write of 10,000,000 rows × 100 B, ours exactly once",
                    ),
                ),
            ),
            PanelPlan(
                "Copy of a topic at 1,000 records/s",
                (
                    _copy("exactly once, p50", "p50"),
                    _copy("exactly once, p99", "p99"),
                    _copy("at least once, p50", "p50"),
                    _copy("at least once, p99", "p99"),
                ),
            ),
        ),
        command="spark",
    ),
    ChartPlan(
        file="agent",
        heading="Agents",
        what="The same Flume configuration runs in a Headrace agent and in Apache Flume.",
        peers=("Apache Flume",),
        panels=(
            PanelPlan(
                "Events",
                (
                    Pick(
                        "netcat to a topic, 200 bytes",
                        "ingest",
                        "netcat -> memory -> topic, 200-byte events",
                    ),
                    Pick(
                        "syslogtcp to a topic, 200 bytes",
                        "ingest",
                        "syslogtcp -> memory -> topic, 200-byte events",
                    ),
                    Pick(
                        "avro, file channel, avro",
                        "ingest",
                        "avro -> file -> avro, batches of 1000",
                    ),
                ),
            ),
            PanelPlan(
                "Files",
                (
                    Pick(
                        "TAILDIR of 2 GiB to a topic",
                        "ingest",
                        "TAILDIR of 2048 MiB -> memory -> topic",
                    ),
                ),
            ),
        ),
        command="ingest",
    ),
    ChartPlan(
        file="kinesis",
        heading="The Kinesis gateway",
        what="boto3 is the client of all sides, with records of 1 KiB. Headrace's side is a "
        "gateway and a broker, and every acknowledged record is in the log; kinesis-mock "
        "and moto keep records in memory.",
        peers=("kinesis-mock", "moto"),
        panels=(
            PanelPlan(
                "Throughput, 4 processes",
                (
                    _kinesis(
                        "PutRecords of 500", "PutRecords of 500 × 1 KiB, 4 processes with boto3"
                    ),
                    _kinesis(
                        "GetRecords of about 1,000",
                        "GetRecords of about 1,000 × 1 KiB, 4 processes with boto3",
                    ),
                ),
            ),
            PanelPlan(
                "PutRecord, one at a time",
                tuple(
                    _kinesis(each, f"PutRecord of 1 KiB, one at a time, boto3: {each}")
                    for each in ("p50", "p99")
                ),
            ),
            PanelPlan(
                "Large records at once",
                (
                    _kinesis("100 PutRecord of 256 KiB", "100 PutRecord of 256 KiB at once"),
                    _kinesis("50 PutRecord of 1 MiB", "50 PutRecord of 1024 KiB at once"),
                ),
            ),
        ),
        command="kinesis",
    ),
)

NOT_A_PEER = (
    "append rate in the last tenth",
    "two brokers (ours) against one (theirs)",
    "hold-up of another thread meanwhile",
)
"""Rows whose second figure is ours under other conditions: beginnings of their names."""
