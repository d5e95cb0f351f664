"""The settings of a sink or channel that writes to topics, and the writer's options from them."""

from headrace.ingest.kafka.topic_writer import POSITIONS_TOPIC, WriterOptions
from headrace.ingest.settings import Setting, Settings, number, prefix, text
from headrace.records.compression import codec_named

PRODUCER_SETTINGS: tuple[Setting, ...] = (
    text(
        "kafka.bootstrap.servers",
        "The bootstrap brokers.",
        required=True,
        other_names=("brokerList",),
    ),
    prefix("kafka.producer", "Settings of the producer, with Kafka's names."),
    text("kafka.transactional.id", "Write in transactions with this transactional id."),
    text(
        "kafka.positions.topic", "The topic for positions of exactly-once sources.", POSITIONS_TOPIC
    ),
    number("defaultPartitionId", "The partition of events without that header.", None),
    text("partitionIdHeader", "The header that names the partition."),
)


def writer_options(settings: Settings) -> WriterOptions:
    """Return the options of the writer.

    Raises:
        SettingError: a value cannot be used.
    """
    texts = settings.below("kafka.producer")
    acks = texts.get("acks", "all")
    if acks not in ("all", "-1", "1", "0"):
        raise settings.wrong("kafka.producer.acks", f"acks cannot be {acks!r}: write all, 1 or 0")
    codec = texts.get("compression.type", "none")
    try:
        codec_named(codec)
    except ValueError as error:
        raise settings.wrong("kafka.producer.compression.type", str(error)) from None
    identity = settings.optional("kafka.transactional.id") or texts.get("transactional.id")
    return WriterOptions(
        acks="all" if identity else acks,
        codec=codec,
        transactional_id=identity,
        positions_topic=settings.text("kafka.positions.topic"),
        topic=settings.text("kafka.topic"),
    )
