"""`headrace mirror`: copy topics between clusters, as MirrorMaker 2 is configured for it."""

from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from headrace.cli.terminal.epilog import epilog
from headrace.cli.terminal.listen_address import parse_listen_address
from headrace.cli.terminal.log_choice import configure_logging
from headrace.cli.terminal.log_option import LogFormatOption, LogLevelOption
from headrace.cli.terminal.output import print_json, print_table
from headrace.cli.terminal.until_signal import until_signal
from headrace.mirror.config.flow_settings import FlowSettings
from headrace.mirror.config.mirror_file import MirrorFile
from headrace.model.error import InvalidArgument

app = typer.Typer(add_completion=False, rich_markup_mode=None, no_args_is_help=True)

_RUN = """
Examples:

  headrace mirror run mirror.properties

  headrace mirror run mirror.properties --metrics 127.0.0.1:9404

  headrace mirror run mirror.properties --instance host-1      one of several that share the work

A mirror.properties of two clusters:

  clusters = us, eu

  us.bootstrap.servers = us-1:9092

  eu.bootstrap.servers = eu-1:9092

  us->eu.enabled = true

If eu is a Headrace cluster its own brokers can copy, and offsets stay as they are:

  us->eu.headrace.copied.by = brokers

  us->eu.replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy
"""

FileArgument = Annotated[Path, typer.Argument(metavar="FILE", help="MirrorMaker 2's file.")]


@app.command(epilog=epilog(_RUN))
def run(
    file: FileArgument,
    metrics: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Serve metrics for Prometheus here.")
    ] = None,
    instance: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="This process is one of several; each has another name."),
    ] = None,
    log_level: LogLevelOption = "info",
    log_format: LogFormatOption = "text",
) -> None:
    """Copy the topics of all enabled flows until Ctrl-C."""
    from headrace.mirror.link.link_process import LinkProcess
    from headrace.mirror.process.mirror_process import MirrorProcess
    from headrace.telemetry.metrics_endpoint import MetricsEndpoint

    configure_logging(log_level, log_format)
    settings = MirrorFile.read(file)
    process = MirrorProcess(settings, instance)
    with ExitStack() as stack:
        if metrics is not None:
            listen = parse_listen_address(metrics, "--metrics")
            endpoint = stack.enter_context(
                MetricsEndpoint(listen.host, listen.port, process.readings, owner="the mirror")
            )
            print(f"Metrics are at {endpoint.url}", flush=True)
        if settings.ignored:
            print(f"Without effect here: {', '.join(settings.ignored)}", flush=True)
        names = ", ".join(each.name for each in settings.flows)
        with until_signal(), LinkProcess(settings), process:
            print(f"Mirroring {names}", flush=True)
            process.wait()
    print("Stopped.")


_STATUS = """
Examples:

  headrace mirror status mirror.properties

  headrace mirror status mirror.properties --json | jq '.[] | select(.lag > 0)'

It asks both clusters, not the process: it works wherever the clusters can be reached. Exit code 1
when a partition is truncated, has other records, or was created again at the source.
"""
_HEADINGS = ("flow", "topic", "partition", "end", "position", "lag", "age", "copied", "state")


@app.command(epilog=epilog(_STATUS))
def status(
    file: FileArgument,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show how far each partition is copied."""
    from headrace.mirror.link.link_status import TROUBLE, read_status

    rows = read_status(MirrorFile.read(file))
    if as_json:
        print_json(
            [
                {
                    "flow": each.flow,
                    "topic": each.partition.topic,
                    "partition": each.partition.partition,
                    "remote_topic": each.remote_topic,
                    "end": each.end,
                    "position": each.position,
                    "lag": each.lag,
                    "age_ms": each.age_ms,
                    "progress": each.progress,
                    "state": each.state,
                }
                for each in rows
            ]
        )
    else:
        print_table(
            _HEADINGS,
            [
                (
                    each.flow,
                    each.partition.topic,
                    each.partition.partition,
                    each.end,
                    each.position,
                    each.lag,
                    None if each.age_ms is None else f"{each.age_ms / 1000:.1f} s",
                    None if each.progress is None else f"{int(each.progress * 100)} %",
                    each.state,
                )
                for each in rows
            ],
        )
    if any(each.state in TROUBLE for each in rows):
        raise typer.Exit(1)


_CHECK = """
Examples:

  headrace mirror check mirror.properties

It changes nothing, at neither side. Exit code 1 when something is missing.
"""


@app.command(epilog=epilog(_CHECK))
def check(file: FileArgument) -> None:
    """Check a file, the logins of its clusters, and the rights that its flows need."""
    from headrace.mirror.link.link_check import check_link
    from headrace.mirror.process.check import check as check_file

    settings = MirrorFile.read(file)
    for name in settings.ignored:
        print(f"{name} has no effect here.")
    results = list(check_file(settings, check_link))
    print_table(
        ("cluster", "needed", "result"),
        [(each.cluster, each.what, each.problem or "ok") for each in results],
    )
    if any(each.problem is not None for each in results):
        raise typer.Exit(1)


_PROMOTE = """
Examples:

  headrace mirror promote mirror.properties clicks orders

  headrace mirror promote mirror.properties 'us.clicks' --flow 'us->eu' --without-source

Copying stops for good, transactions of the source that are open are aborted, and clients may write
from then on. It says which records of the source were not copied. Cut off, it can be run again. For
flows with headrace.copied.by = brokers; the copies of a process can be written to as they are.
"""


@app.command(epilog=epilog(_PROMOTE))
def promote(
    file: FileArgument,
    topics: Annotated[list[str], typer.Argument(help="Mirror topics, as the target calls them.")],
    flow: Annotated[
        str | None, typer.Option(metavar="A->B", help="Which flow, if brokers copy several.")
    ] = None,
    without_source: Annotated[
        bool, typer.Option("--without-source", help="Do not ask the source what is missing.")
    ] = False,
) -> None:
    """Let clients write to mirror topics: their cluster takes over."""
    from contextlib import ExitStack
    from functools import partial

    from headrace.client.network.pool import ConnectionPool
    from headrace.mirror.link.promotion import Promotion

    settings = MirrorFile.read(file)
    chosen = _linked_flow(settings, flow)
    with ExitStack() as stack:
        target = stack.enter_context(ConnectionPool(settings.clients[chosen.target]))
        source = None
        if not without_source:
            source = stack.enter_context(ConnectionPool(settings.clients[chosen.source]))
            # Before anything is stopped.
            source.metadata(())
        say = partial(print, flush=True)
        missing = Promotion(target, source, say=say, link=chosen.source).run(topics)
    for each in missing:
        if each.end is None:
            print(f"{each.partition}: what the source has from offset {each.start} on is not known")
        else:
            count = each.end - each.start
            print(
                f"{each.partition}: {count} offsets of the source are not here, {each.start} to "
                f"{each.end - 1}"
            )


def _linked_flow(settings: MirrorFile, name: str | None) -> FlowSettings:
    linked = [each for each in settings.flows if each.copied_by_brokers]
    chosen = [each for each in linked if name in (None, each.name)]
    if len(chosen) == 1:
        return chosen[0]
    known = ", ".join(each.name for each in linked) or "none"
    raise InvalidArgument(
        f"name one flow that brokers copy with --flow; the file has: {known}"
        if linked
        else "no flow of the file has headrace.copied.by = brokers: there is nothing to promote"
    )
