"""The documentation page of all configuration keys, from the tables that validation reads."""

from headrace.model.broker_config import BROKER_CONFIG
from headrace.model.client_metrics_config import CLIENT_METRICS_CONFIG
from headrace.model.config import ConfigKey, ConfigTable
from headrace.model.group_config import GROUP_CONFIG
from headrace.model.mirror_link_config import MIRROR_LINK_CONFIG
from headrace.model.topic_config import TOPIC_CONFIG

_LARGEST = 2**63 - 1


def configuration_page() -> str:
    """Return the page as Markdown: tables for topics, brokers, and what has no effect."""
    sections = [
        "# Configuration",
        "",
        "Names and defaults are Kafka's wherever Kafka has the thing; keys that begin with",
        "`headrace.` are ours. Set a broker's keys in a properties file (`headrace up --config`)",
        "or with `-X key=value`, a topic's with `headrace topic create -c` and `alter-config`, or",
        "with any Kafka tool.",
        "",
        "This page is written by `tools/write-configuration-docs`; a test holds it up to date.",
        "",
        *_section("Topics", TOPIC_CONFIG),
        *_section("Brokers", BROKER_CONFIG),
        *_section("Groups", GROUP_CONFIG),
        *_section("Client metrics", CLIENT_METRICS_CONFIG),
        *_section("Mirror links", MIRROR_LINK_CONFIG),
        *_loggers(),
        *_ignored(BROKER_CONFIG),
    ]
    return "\n".join(sections)


def _section(title: str, table: ConfigTable) -> list[str]:
    effective = [key for key in table if key.without_effect is None or table is not BROKER_CONFIG]
    rows = [_row(key) for key in sorted(effective, key=lambda key: key.name)]
    return [
        f"## {title}",
        "",
        "| key | type | default | allowed | what it does |",
        "|---|---|---|---|---|",
        *rows,
        "",
    ]


def _loggers() -> list[str]:
    return [
        "## Broker loggers",
        "",
        "The levels of a broker's loggers change while it runs, with `kafka-configs",
        "--entity-type broker-loggers`. A logger is called like its module, as",
        "`headrace.broker.dispatch`; a package (`headrace.broker`) stands for all below it, and",
        "`root` for the rest. Levels are Kafka's: TRACE, DEBUG, INFO, WARN, ERROR, FATAL. They",
        "last as long as the process.",
        "",
    ]


def _ignored(table: ConfigTable) -> list[str]:
    ignored = sorted((key.name, key.without_effect) for key in table if key.without_effect)
    return [
        "## Kafka's broker keys without effect",
        "",
        "They are described, validated and taken, from a file and from Kafka's tools; a broker",
        "that is given one logs `config_key_ignored`. One that holds a secret is not kept.",
        "",
        "| key | why it has no effect |",
        "|---|---|",
        *(f"| `{name}` | {reason} |" for name, reason in ignored),
        "",
    ]


def _row(key: ConfigKey) -> str:
    default = "" if key.default is None else f"`{key.render(key.default)}`"
    doc = key.documentation
    if key.broker_default is not None:
        doc = f"{doc} The broker's default is `{key.broker_default}`."
    cells = [f"`{key.name}`", key.type.name.lower(), default, _allowed(key), doc]
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _allowed(key: ConfigKey) -> str:
    """Return which values a key takes, and why, where Kafka would take others."""
    allowed = _bounds(key)
    if key.bound_reason is None or key.bound_reason == key.without_effect:
        return allowed
    return f"{allowed}: {key.bound_reason}"


def _bounds(key: ConfigKey) -> str:
    if key.choices:
        return ", ".join(choice or "''" for choice in key.choices)
    if key.minimum is None:
        return ""
    if key.maximum is None or key.maximum == _LARGEST:
        return f"at least {key.minimum}"
    if key.minimum == key.maximum:
        return f"{key.minimum}"
    return f"{key.minimum} to {key.maximum}"
