"""`headrace audit`: check that every sent record arrived everywhere."""

import time
from typing import Annotated, Any

import typer

from headrace.audit.feed import read_audit
from headrace.audit.reconciliation import AuditRow, Reconciliation
from headrace.audit.record import DEFAULT_BUCKET_MS, TOPIC
from headrace.audit.reporter import Reporter
from headrace.audit.tally import Tally
from headrace.audit.topic_counter import count_topics
from headrace.cli.terminal.duration import parse_duration
from headrace.cli.terminal.epilog import epilog
from headrace.cli.terminal.option import BrokersOption, SettingsOption, connect
from headrace.cli.terminal.output import print_json, print_table
from headrace.cli.terminal.stop import Stop
from headrace.client.error import BrokerError, ClientError
from headrace.client.read.read_range import LogEdge
from headrace.model.clock import SystemClock
from headrace.wire.error_code import ErrorCode

app = typer.Typer(invoke_without_command=True, add_completion=False, rich_markup_mode=None)

_EXAMPLES = """
Examples:

  headrace audit                                  all topics, the last hour

  headrace audit --topic clicks --since 24h

  headrace audit --json                           for programs

  headrace audit count clicks --tier broker       count the topic's records as a tier

Exit code 1 when a tier lacks records of a bucket whose time has passed.
"""


@app.callback(epilog=epilog(_EXAMPLES))
def audit(
    context: typer.Context,
    topic: Annotated[
        list[str] | None, typer.Option("-t", "--topic", help="Only these topics; repeatable.")
    ] = None,
    since: Annotated[str, typer.Option(metavar="TIME", help="How far back: 90s, 30m, 24h.")] = "1h",
    grace: Annotated[
        str, typer.Option(metavar="TIME", help="How long after its end a bucket still fills.")
    ] = "60s",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    audit_topic: Annotated[str, typer.Option(help="Where the counts are.")] = TOPIC,
    brokers: BrokersOption = None,
    setting: SettingsOption = None,
) -> None:
    """Compare what each tier counted per topic and bucket of time."""
    if context.invoked_subcommand is not None:
        return
    now_ms = SystemClock().wall_ms()
    since_ms = now_ms - round(parse_duration(since) * 1000)
    reconciliation = Reconciliation()
    with connect(brokers, setting) as pool:
        try:
            # The counts of a bucket are written after it begins, never before.
            reconciliation.add(read_audit(pool.settings, since_ms, audit_topic))
        except BrokerError as error:
            if error.code is not ErrorCode.unknown_topic_or_partition:
                raise
            raise ClientError(
                f"nothing is counted yet: there is no topic {audit_topic} (docs/audit.md)"
            ) from error
    rows = reconciliation.rows(
        now_ms=now_ms,
        grace_ms=round(parse_duration(grace) * 1000),
        since_ms=since_ms,
        topics=topic or (),
    )
    if as_json:
        print_json([each.as_json() for each in rows])
    else:
        _print(rows)
    if any(each.lost for each in rows):
        raise typer.Exit(1)


def _print(rows: list[AuditRow]) -> None:
    lines: list[tuple[Any, ...]] = []
    for row in rows:
        at = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(row.bucket_ms / 1000))
        for tier in row.tiers or (None,):
            if tier is None:
                lines.append((row.topic, at, row.sent, "-", None, "-", "-", "only sent"))
                continue
            short = tier.count < row.sent
            state = "on its way" if short and not row.final else "LOST" if short else "ok"
            if tier.count > row.sent:
                state = "more than sent"
            percent, delay = f"{tier.percent:g} %", f"{tier.delay_ms / 1000:.1f} s"
            lines.append((row.topic, at, row.sent, tier.tier, tier.count, percent, delay, state))
    print_table(["topic", "bucket", "sent", "tier", "count", "of_sent", "delay", "status"], lines)


@app.command(
    epilog=epilog("""
Examples:

  headrace audit count clicks views --tier broker

  headrace audit count clicks --tier lake --to-end      records up to now, then end
""")
)
def count(
    topics: Annotated[list[str], typer.Argument(metavar="TOPIC...")],
    tier: Annotated[str, typer.Option(help="The name to count under.")] = "broker",
    bucket: Annotated[
        str | None, typer.Option(metavar="TIME", help="Length of a bucket; 10m by default.")
    ] = None,
    from_start: Annotated[
        bool, typer.Option("--from-start", help="Count existing records too.")
    ] = False,
    to_end: Annotated[
        bool, typer.Option("--to-end", help="Count all records up to now, and end.")
    ] = False,
    duration: Annotated[
        str | None, typer.Option("--for", metavar="TIME", help="End after 30s, 2m or 1h.")
    ] = None,
    audit_topic: Annotated[str, typer.Option(help="Where to write the counts.")] = TOPIC,
    brokers: BrokersOption = None,
    setting: SettingsOption = None,
) -> None:
    """Read topics and count their records as a tier, until Ctrl-C."""
    bucket_ms = DEFAULT_BUCKET_MS if bucket is None else round(parse_duration(bucket) * 1000)
    ends = None if duration is None else time.monotonic() + parse_duration(duration)
    tally = Tally(tier, bucket_ms=bucket_ms)
    with connect(brokers, setting) as pool:
        settings = pool.settings
    with Stop() as stop, Reporter(tally, settings, topic=audit_topic) as reporter:
        counted = count_topics(
            settings,
            topics,
            tally,
            start=LogEdge.EARLIEST if from_start or to_end else LogEdge.LATEST,
            follow=not to_end,
            stopped=lambda: stop.requested or (ends is not None and time.monotonic() >= ends),
        )
    if reporter.problem is not None:
        raise reporter.problem
    print(f"{counted:,} records counted as tier {tier}.")
