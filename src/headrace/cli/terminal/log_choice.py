"""What `--log-level` and `--log-format` may say, and how it takes effect."""

from headrace.model.error import ConfigError
from headrace.telemetry.logging import LEVELS, configure


def configure_logging(log_level: str, log_format: str) -> None:
    """Set the level and the format of every later log line of this process.

    Raises:
        ConfigError: the level or the format does not exist.
    """
    if log_level not in LEVELS:
        raise ConfigError(f"--log-level cannot be {log_level!r}: write {', '.join(LEVELS)}")
    if log_format not in ("text", "json"):
        raise ConfigError(f"--log-format cannot be {log_format!r}: write text or json")
    configure(log_level, "json" if log_format == "json" else "text")
