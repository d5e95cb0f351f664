"""Which rows of the table are drawn together, and what each chart says it is."""

from bench.chart.broker_catalogue import BROKER_CHARTS
from bench.chart.plan import ChartPlan, PanelPlan, Pick

CONNECTOR = "Spark's Kafka connector"
_COPY = "copy of a topic at 1,000 records/s"


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
        f"{_COPY}, micro-batch, {label.partition(',')[0]}: {quantile}",
        peer_rows=(f"{_COPY}, connector, real-time mode: {quantile}",),
    )


CHARTS = (
    *BROKER_CHARTS,
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
                "Throughput",
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
                    *(
                        Pick(
                            f"{way} read, three fields of {kind}",
                            "spark",
                            f"{way} read of three columns of {kind}, 5,000,000 records",
                        )
                        for kind in ("JSON", "Avro, theirs of JSON")
                        for way in ("batch", "streaming")
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
    "start of a broker ",
    "produce p99 beside a consumer far behind",
    "memory of an agent",
)
"""Rows whose second figure is ours under other conditions: beginnings of their names."""
