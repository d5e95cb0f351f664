"""`key=value` pairs of an option that may be repeated."""

from headrace.model.error import ConfigError


def parse_pairs(pairs: list[str] | None, option: str) -> dict[str, str]:
    """Return the pairs of an option by their keys; the last one of a key wins.

    >>> parse_pairs(["retention.ms=1000", "cleanup.policy=compact"], "-c")
    {'retention.ms': '1000', 'cleanup.policy': 'compact'}

    Raises:
        ConfigError: a pair has no `=`.
    """
    values = {}
    for pair in pairs or ():
        key, equals, value = pair.partition("=")
        if not equals or not key.strip():
            raise ConfigError(f"{option} {pair} has no value: write it as {option} key=value")
        values[key.strip()] = value.strip()
    return values
