"""Listeners, connections and request sizes."""

from headrace.model.broker.key import INT_MAX, MINUTE_MS, broker_key
from headrace.model.config import ConfigType

NETWORK_KEYS = [
    broker_key(
        "listeners",
        ConfigType.LIST,
        ("PLAINTEXT://127.0.0.1:9092",),
        "Where the broker listens: NAME://HOST:PORT, separated by commas; IPv6 in brackets.",
    ),
    broker_key(
        "advertised.listeners",
        ConfigType.LIST,
        (),
        "The addresses that clients connect to; the same names as listeners, which is the default.",
    ),
    broker_key(
        "listener.security.protocol.map",
        ConfigType.LIST,
        (),
        "The protocol of listeners with names of their own: NAME:PROTOCOL, separated by commas.",
    ),
    broker_key(
        "headrace.admin.listener",
        ConfigType.STRING,
        "127.0.0.1:0",
        "HOST:PORT of /healthz, /readyz and /metrics; port 0 takes a free one, none turns it off.",
    ),
    broker_key(
        "headrace.metrics.max.topics",
        ConfigType.INT,
        500,
        "How many topics have metrics of their own, the first ones with traffic; the others are "
        "counted together.",
        minimum=0,
    ),
    broker_key(
        "socket.request.max.bytes",
        ConfigType.INT,
        100 * 1024 * 1024,
        "The largest request taken; a larger or negative size closes the connection unread.",
        minimum=1024,
    ),
    broker_key(
        "socket.listen.backlog.size",
        ConfigType.INT,
        1024,
        "Connections the kernel queues while the broker is busy.",
        minimum=1,
    ),
    broker_key(
        "connections.max.idle.ms",
        ConfigType.LONG,
        10 * MINUTE_MS,
        "A connection without a request for this long is closed.",
        minimum=1,
    ),
    broker_key(
        "max.connections",
        ConfigType.INT,
        INT_MAX,
        "Connections the broker keeps at once; more are closed when they come.",
        minimum=0,
        dynamic=True,
    ),
    broker_key(
        "max.connections.per.ip",
        ConfigType.INT,
        INT_MAX,
        "Connections from one address at once.",
        minimum=0,
        dynamic=True,
    ),
    broker_key(
        "telemetry.max.bytes",
        ConfigType.INT,
        1024 * 1024,
        "The largest push of a client's metrics (KIP-714), as it is sent.",
        minimum=1,
    ),
    broker_key(
        "queued.max.request.bytes",
        ConfigType.LONG,
        1024 * 1024 * 1024,
        "What requests that are still arriving may hold together; past it the oldest is given up.",
        minimum=1024 * 1024,
    ),
    broker_key(
        "queued.max.requests",
        ConfigType.INT,
        500,
        "Requests of one connection that may wait for their answers before reading pauses.",
        minimum=1,
    ),
]
