"""`headrace up --with kinesis,registry,rest,console`: services beside a broker.

Each has a process of its own: a broker and a gateway in one interpreter would wait for each other.
"""

import importlib.util
import sys
from collections.abc import MutableMapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from headrace.cli.supervisor.supervised_child import SupervisedChild
from headrace.cli.terminal.listen_address import parse_listen_address
from headrace.model.error import ConfigError
from headrace.telemetry.browser_guard import is_loopback_address

_ANNOUNCEMENTS: Final = {
    "console": "The console is at",
    "kinesis": "The Kinesis API is at",
    "registry": "The schema registry is at",
    "rest": "The REST API is at",
}
_NEEDED: Final = {
    "console": ("uvicorn", "starlette"),
    "kinesis": ("uvicorn", "botocore"),
    "registry": ("uvicorn", "h2"),
    "rest": ("uvicorn", "wsproto"),
}
_LOGS: Final = ("kinesis", "registry", "rest")
"""Those that take the options of the log."""

_REGISTRY: Final = "http://127.0.0.1:8081"
"""Where `headrace registry` listens by default."""


@dataclass(frozen=True, slots=True)
class SideService:
    """One service, and where it listens; by default where its own command does.

    Attributes:
        registry: the schema registry that a console shows, or a REST proxy uses.
    """

    name: str
    listen: str | None = None
    registry: str | None = None

    def child(self, brokers: str, log_options: Sequence[str]) -> SupervisedChild:
        """Return its process, not yet started.

        Args:
            brokers: the addresses of the brokers that it serves.
        """
        options = ["-b", brokers]
        if self.listen is not None:
            options += ["--listen", self.listen]
        if self.registry is not None:
            options += ["--registry", self.registry]
        if self.name in _LOGS:
            options += log_options
        command = [sys.executable, "-m", "headrace.cli.main", self.name, *options]
        return SupervisedChild(self.name, command, _ANNOUNCEMENTS[self.name])


def _check_listener(name: str, listen: str) -> None:
    host = parse_listen_address(listen, f"{name}.listeners").host
    if not is_loopback_address(host):
        raise ConfigError(
            f"{name}.listeners={listen} would let everyone in who reaches this machine: start "
            f"headrace {name} by itself, with a login"
        )


def side_services(
    wishes: Sequence[str] | None, texts: MutableMapping[str, str]
) -> list[SideService]:
    """Return the services of `--with`, and take their keys out of the configuration.

    >>> texts = {"kinesis.listeners": "127.0.0.1:4567", "num.partitions": "3"}
    >>> side_services(["kinesis,console"], texts), texts
    ([SideService(name='kinesis', listen='127.0.0.1:4567', registry=None), SideService(name='console', listen=None, registry=None)], {'num.partitions': '3'})

    Raises:
        ConfigError: a service is not known or not installed, or a key is of one that is not named.
    """  # noqa: E501, the doctest
    names = [each.strip() for wish in wishes or () for each in wish.split(",")]
    names = list(dict.fromkeys(names))
    known = ", ".join(sorted(_ANNOUNCEMENTS))
    for name in names:
        if name not in _ANNOUNCEMENTS:
            raise ConfigError(f"--with {name}: there is no such service; write one of {known}")
        for module in _NEEDED[name]:
            if importlib.util.find_spec(module) is None:
                raise ConfigError(f"--with {name} needs {module}: pip install 'headrace[{name}]'")
    services = []
    for name in _ANNOUNCEMENTS:
        listen = texts.pop(f"{name}.listeners", None)
        if listen is not None and name not in names:
            raise ConfigError(f"{name}.listeners needs --with {name}")
        if listen is not None:
            _check_listener(name, listen)
        services.append(SideService(name, listen))
    other = next((each for each in texts if each.startswith(tuple(f"{n}." for n in names))), None)
    if other is not None:
        service = other.partition(".")[0]
        raise ConfigError(
            f"{other} is no key of headrace up: start headrace {service} by itself to set more "
            f"than {service}.listeners"
        )
    by_name = {each.name: each for each in services}
    if "registry" in names:
        url = _registry_url(by_name["registry"].listen)
        for name in ("console", "rest"):
            by_name[name] = replace(by_name[name], registry=url)
    return [by_name[name] for name in names]


def _registry_url(listen: str | None) -> str | None:
    """Return where a registry beside others answers; None if the kernel chooses its port."""
    if listen is None:
        return _REGISTRY
    address = parse_listen_address(listen, "registry.listeners")
    return f"http://{address}" if address.port else None
