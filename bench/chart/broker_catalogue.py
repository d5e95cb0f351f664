"""The charts of brokers beside Apache Kafka: one, three, and one as its load grows."""

from bench.chart.plan import ChartPlan, PanelPlan, Pick

KAFKA = "Apache Kafka"

_CPU = "the same, broker CPU"
_JAVA = "100-byte records, 6 partitions, Java client"
_RDKAFKA = "100-byte records, 6 partitions, confluent-kafka"
_MANY = "1,000 partitions, confluent-kafka"
_CONNECTIONS = "50 connections, one record a request"
_REPLICATED = "produce 100-byte records, 3 brokers, 3 replicas, acks={}, confluent-kafka"
_SIZES = ("10 B", "100 B", "1 KiB", "10 KiB", "100 KiB")


def _broker(label: str, name: str) -> Pick:
    return Pick(label, "broker", name)


def _broker_cpu(label: str, subject: str) -> Pick:
    return Pick(label, "broker", _CPU, subject=subject)


def _cluster(label: str, name: str) -> Pick:
    return Pick(label, "cluster", name)


def _series(title: str, names: dict[str, str]) -> PanelPlan:
    return PanelPlan(title, tuple(Pick(label, "scaling", name) for label, name in names.items()))


BROKER_CHARTS = (
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
)
