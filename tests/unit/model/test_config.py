"""A configuration key is declared once; what a user writes is checked against that."""

import pytest

from headrace.model.broker_config import BROKER_CONFIG, topic_defaults
from headrace.model.config import ConfigKey, ConfigTable, ConfigType
from headrace.model.error import ConfigError
from headrace.model.table.table_config import TABLE_KEYS
from headrace.model.topic_config import TOPIC_CONFIG, LogConfig


def test_a_written_value_gets_the_type_of_its_key() -> None:
    values = TOPIC_CONFIG.parse(
        {
            "retention.ms": " 1000 ",
            "preallocate": "True",
            "min.cleanable.dirty.ratio": "0.25",
            "cleanup.policy": "compact, delete",
        }
    )

    assert values == {
        "retention.ms": 1000,
        "preallocate": True,
        "min.cleanable.dirty.ratio": 0.25,
        "cleanup.policy": ("compact", "delete"),
    }


@pytest.mark.parametrize(
    ("name", "text", "allowed"),
    [
        ("retention.ms", "soon", "a whole number"),
        ("retention.ms", "-2", "between -1 and"),
        ("segment.bytes", "2147483648", "between 1024 and 2147483647"),
        ("preallocate", "yes", "true or false"),
        ("cleanup.policy", "shred", "one of delete, compact"),
        ("min.cleanable.dirty.ratio", "nan", "between 0 and 1"),
        ("compression.type", "brotli", "one of uncompressed"),
    ],
)
def test_a_wrong_value_names_the_key_and_what_is_allowed(
    name: str, text: str, allowed: str
) -> None:
    with pytest.raises(ConfigError, match=allowed) as error:
        TOPIC_CONFIG.parse({name: text})

    assert name in str(error.value)
    assert repr(text) in str(error.value)


def test_an_unknown_key_names_the_nearest_known_one() -> None:
    with pytest.raises(ConfigError, match=r"did you mean retention\.ms\?"):
        TOPIC_CONFIG.parse({"retension.ms": "1"})


def test_a_password_is_never_shown_in_an_error() -> None:
    key = ConfigKey(
        name="secret", type=ConfigType.PASSWORD, default=None, doc="", choices=("right",)
    )

    with pytest.raises(ConfigError) as error:
        ConfigTable.of("a test", [key]).parse({"secret": "hunter2"})

    assert "hunter2" not in str(error.value)


@pytest.mark.parametrize("key", [*TOPIC_CONFIG, *BROKER_CONFIG], ids=lambda key: key.name)
def test_every_default_is_a_value_its_own_key_accepts(key: ConfigKey) -> None:
    written = key.render(key.default)

    if written is not None:
        assert key.parse(written) == key.default
    assert key.doc.endswith(".")


def test_log_config_has_the_defaults_of_the_table() -> None:
    config = LogConfig()

    for key in TOPIC_CONFIG:
        if key.without_effect is None and not key.name.startswith(TABLE_KEYS):
            assert getattr(config, key.name.replace(".", "_")) == key.default, key.name


def test_log_config_refuses_lags_that_contradict_each_other() -> None:
    with pytest.raises(ConfigError, match=r"min\.compaction\.lag\.ms \(10\) cannot be above"):
        LogConfig.parse({"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "5"})


def test_a_topic_takes_its_defaults_from_the_broker() -> None:
    broker = BROKER_CONFIG.defaults() | BROKER_CONFIG.parse(
        {"log.retention.ms": "60000", "message.max.bytes": "2000"}
    )

    defaults = topic_defaults(broker)

    assert defaults["retention.ms"] == 60000
    assert defaults["max.message.bytes"] == 2000
    assert defaults["segment.bytes"] == 1_073_741_824


def test_a_compacted_log_rolls_in_time_for_its_longest_compaction_lag() -> None:
    lag = {"max.compaction.lag.ms": "1000", "segment.ms": "5000"}

    assert LogConfig.parse(lag).roll_ms == 5000
    assert LogConfig.parse({**lag, "cleanup.policy": "compact"}).roll_ms == 1000
