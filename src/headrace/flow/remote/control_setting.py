"""Whether a driver reports to its brokers and does what is asked there: the setting `control`.

`auto`, the default, does if the driver runs inside a cluster, where no command of its user finds
it. `on` does for every driver, such as one on another machine. `off` does not.
"""

from collections.abc import Callable, Mapping
from typing import Final

from headrace.flow.error import FlowError

CONTROL: Final = "control"
_WORDS: Final = {"auto": None, "on": True, "true": True, "off": False, "false": False}
# Spark's settings in a driver inside a cluster. A pod's is started as one in client mode.
_IN_CLUSTER: Final = {
    "spark.submit.deployMode": "cluster",
    "spark.kubernetes.submitInDriver": "true",
}


def check_control(settings: Mapping[str, str]) -> bool | None:
    """Return on or off; None if the place of the driver decides.

    Raises:
        FlowError: the setting has no such value.
    """
    text = settings.get(CONTROL, "auto").strip().lower()
    if text not in _WORDS:
        raise FlowError(f"the setting control cannot be {text!r}: write auto, on or off")
    return _WORDS[text]


def is_controlled(settings: Mapping[str, str], conf: Callable[[str], str | None]) -> bool:
    """Return whether a driver is to be seen and changed through its brokers.

    Args:
        conf: returns a setting of Spark; None if it is not set.
    """
    chosen = check_control(settings)
    if chosen is not None:
        return chosen
    return any(conf(key) == value for key, value in _IN_CLUSTER.items())
