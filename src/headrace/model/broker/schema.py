"""The schema registry that topics with schema validation ask, by Confluent Server's names."""

from headrace.model.broker.key import INT_MAX, broker_key
from headrace.model.config import ConfigType

SCHEMA_KEYS = [
    broker_key(
        "confluent.schema.registry.url",
        ConfigType.PASSWORD,
        None,
        "Where the schema registry answers, http://HOST:PORT; several with commas between them. "
        "Topics with confluent.value.schema.validation need it. It may hold a login, as in "
        "http://NAME:PASSWORD@HOST:PORT, so it is not shown.",
    ),
    broker_key(
        "confluent.basic.auth.credentials.source",
        ConfigType.STRING,
        "URL",
        "Where the login is: in confluent.schema.registry.url, or in "
        "confluent.basic.auth.user.info.",
        choices=("URL", "USER_INFO"),
    ),
    broker_key(
        "confluent.basic.auth.user.info",
        ConfigType.PASSWORD,
        None,
        "Who to log in as: NAME:PASSWORD.",
    ),
    broker_key(
        "confluent.bearer.auth.credentials.source",
        ConfigType.STRING,
        "STATIC_TOKEN",
        "Where the token is: in confluent.bearer.auth.token.",
        choices=("STATIC_TOKEN",),
    ),
    broker_key(
        "confluent.bearer.auth.token",
        ConfigType.PASSWORD,
        None,
        "A token to log in with, instead of a user.",
    ),
    broker_key(
        "confluent.ssl.truststore.type",
        ConfigType.STRING,
        "PEM",
        "The format of confluent.ssl.truststore.location.",
        choices=("PEM",),
    ),
    broker_key(
        "confluent.ssl.truststore.location",
        ConfigType.STRING,
        None,
        "A file with the authorities whose certificates of registries are believed.",
    ),
    broker_key(
        "confluent.schema.registry.max.cache.size",
        ConfigType.INT,
        10_000,
        "How many ids that were found under a subject are remembered.",
        minimum=1,
        maximum=INT_MAX,
    ),
]
