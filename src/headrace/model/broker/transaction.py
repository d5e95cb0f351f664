"""Transactions and their coordinator."""

from headrace.model.broker.key import DAY_MS, HOUR_MS, MINUTE_MS, broker_key
from headrace.model.config import ConfigType

TRANSACTION_KEYS = [
    broker_key(
        "headrace.producer.id.lowest",
        ConfigType.LONG,
        0,
        "The lowest producer id that is given out from now on. `mirror promote` raises it above "
        "those of the source, whose records a promoted topic holds.",
        minimum=0,
        maximum=2**62,
        dynamic=True,
    ),
    broker_key(
        "transaction.max.timeout.ms",
        ConfigType.INT,
        15 * MINUTE_MS,
        "The longest transaction timeout a producer may ask for.",
        minimum=1,
    ),
    broker_key(
        "transaction.abort.timed.out.transaction.cleanup.interval.ms",
        ConfigType.INT,
        10_000,
        "How often transactions past their timeout are looked for.",
        minimum=1,
    ),
    broker_key(
        "transactional.id.expiration.ms",
        ConfigType.INT,
        7 * DAY_MS,
        "How long a transactional id without a transaction is remembered.",
        minimum=1,
    ),
    broker_key(
        "transaction.remove.expired.transaction.cleanup.interval.ms",
        ConfigType.INT,
        HOUR_MS,
        "How often transactional ids that are no longer used are looked for.",
        minimum=1,
    ),
    broker_key(
        "transaction.state.log.min.isr",
        ConfigType.INT,
        2,
        "min.insync.replicas that __transaction_state is created with; 1 on a broker alone.",
        minimum=1,
    ),
    broker_key(
        "transaction.state.log.num.partitions",
        ConfigType.INT,
        50,
        "Partitions of __transaction_state; fixed once the topic exists.",
        minimum=1,
    ),
    broker_key(
        "transaction.state.log.replication.factor",
        ConfigType.SHORT,
        3,
        "Replicas of __transaction_state. The topic is not created before so many brokers run; a "
        "broker without others creates it with one.",
        minimum=1,
    ),
    broker_key(
        "transaction.state.log.segment.bytes",
        ConfigType.INT,
        100 * 1024 * 1024,
        "Segment size of __transaction_state.",
        minimum=1024,
    ),
]
