"""The client configuration of this user: a `client.properties`, named by an environment variable.

One file configures every command, flow and query. It has Kafka's keys, as Java's
clients or librdkafka spell them, and `${NAME}` for environment variables, so that a password can
come from a secret of the platform.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from headrace.config.properties import VARIABLE, read_properties
from headrace.model.error import ConfigError

CLIENT_CONFIG_VARIABLE: Final = "HEADRACE_CLIENT_CONFIG"


def configured_client(environment: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the settings of the file that `$HEADRACE_CLIENT_CONFIG` names; none without it.

    Raises:
        ConfigError: the file cannot be read, or names an environment variable that is not set.
    """
    variables = os.environ if environment is None else environment
    path = variables.get(CLIENT_CONFIG_VARIABLE)
    if not path:
        return {}
    for key, entry in read_properties(Path(path), {}).items():
        for name in VARIABLE.findall(entry.value):
            if name not in variables:
                raise ConfigError(
                    f"{path}: {key} names the environment variable {name}, which is not set"
                )
    entries = read_properties(Path(path), variables)
    return {key: each.value.strip() for key, each in entries.items()}
