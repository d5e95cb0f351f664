"""`headrace land --configured`: every topic whose configuration names a table."""

import sys
import time
from collections import defaultdict
from contextlib import ExitStack
from pathlib import Path

import typer

from headrace.cli.terminal.duration import parse_duration
from headrace.cli.terminal.listen_address import parse_listen_address
from headrace.cli.terminal.option import client_settings
from headrace.cli.terminal.pair import parse_pairs
from headrace.cli.terminal.registry_option import optional_registry
from headrace.cli.terminal.stop import Stop
from headrace.model.error import ConfigError


def land_configured(
    *,
    folder: Path,
    catalog: list[str] | None,
    workers: int,
    metrics: str | None,
    registry: str | None,
    skip_lost: bool,
    available_now: bool,
    duration: str | None,
    quiet: bool,
    brokers: str | None,
    setting: list[str] | None,
) -> None:
    """Land until Ctrl-C, or every topic once. Exit with 1 if a topic could not be landed at last.

    Raises:
        ConfigError: an option cannot be read.
        HeadraceError: no broker answers, or the brokers know no tables of topics.
    """
    from headrace.client.settings import ClientSettings
    from headrace.landing.configured.landing_process import LandingProcess
    from headrace.landing.configured.table_folder import TableFolder
    from headrace.landing.configured.turn import TurnSettings
    from headrace.serde.registry_client import RegistryClient
    from headrace.telemetry.metrics_endpoint import MetricsEndpoint

    texts, registered = optional_registry(registry, setting)
    deadline = None if duration is None else time.monotonic() + parse_duration(duration)
    with ExitStack() as stack:
        settings = TurnSettings(
            client=ClientSettings.of(client_settings(brokers, texts)),
            folder=TableFolder(folder),
            catalogs=catalog_properties(catalog),
            registry=None
            if registered is None
            else stack.enter_context(RegistryClient(registered)),
            skip_lost=skip_lost,
        )
        process = LandingProcess(
            settings,
            workers=workers,
            follow=not available_now,
            say=(lambda sentence: None) if quiet else _say,
            warn=_warn,
        )
        if metrics is not None:
            listen = parse_listen_address(metrics, "--metrics")
            endpoint = stack.enter_context(
                MetricsEndpoint(listen.host, listen.port, process.readings, owner="headrace land")
            )
            print(f"Metrics are at {endpoint.url}", flush=True)
        stop = stack.enter_context(Stop())
        well = process.run(
            lambda: stop.requested or (deadline is not None and time.monotonic() >= deadline)
        )
    if not well:
        raise typer.Exit(1)


def catalog_properties(pairs: list[str] | None) -> dict[str, dict[str, str]]:
    """Return properties by catalog.

    >>> catalog_properties(["lake:uri=sqlite:///lake.db"])
    {'lake': {'uri': 'sqlite:///lake.db'}}

    Raises:
        ConfigError: a property names no catalog.
    """
    found: defaultdict[str, dict[str, str]] = defaultdict(dict)
    for key, value in parse_pairs(pairs, "--catalog").items():
        name, colon, rest = key.partition(":")
        if not colon or not name or not rest:
            raise ConfigError(
                f"--catalog {key}=… names no catalog: topics may use several, so write "
                "--catalog NAME:KEY=VALUE, such as lake:uri=sqlite:///lake.db"
            )
        found[name][rest] = value
    return dict(found)


def _say(sentence: str) -> None:
    print(sentence, flush=True)


def _warn(sentence: str) -> None:
    print(f"headrace: {sentence}", file=sys.stderr, flush=True)
