"""File descriptors: how many this process may have, and how they are shared out.

Segments and sockets compete for them. Half is for segments (`log.file_pool`), a reserve for what
comes and goes (checkpoints, compaction, the admin port), and connections get the rest.
"""

import resource

from headrace.model.error import ConfigError

# "Unlimited" in a container can mean a billion; Linux's usual hard limit is enough for any broker.
_CEILING = 1_048_576
_RESERVE = 128
_FEWEST_CONNECTIONS = 16


def raise_limit() -> None:
    """Raise the soft limit, which is often only 1,024, to all that this process may have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = _CEILING if hard == resource.RLIM_INFINITY else min(hard, _CEILING)
    if soft != resource.RLIM_INFINITY and soft < limit:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))


def connection_limit(file_capacity: int) -> int:
    """Return how many connections there may be beside `file_capacity` open segments.

    Raises:
        ConfigError: there are not enough descriptors to serve any client.
    """
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft > _CEILING:
        soft = _CEILING
    left = soft - file_capacity - _RESERVE
    if left < _FEWEST_CONNECTIONS:
        raise ConfigError(
            f"this process may open only {soft} files, and a broker needs more: raise the limit, "
            "as with ulimit -n 4096"
        )
    return left
