"""`headrace flow`: run stream programs, and manage the running ones."""

import json
import os
import time
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from headrace.cli.flow import control
from headrace.cli.flow import land as land_command
from headrace.cli.flow.control import NameArgument
from headrace.cli.flow.flow_lookup import fields_of, find_flow, named_flow, running_flows
from headrace.cli.flow.program import LoadedProgram, ProgramArguments, load_program
from headrace.cli.flow.table import HEADINGS, line_of, rows_of
from headrace.cli.record.offset_spec import parse_offset_spec
from headrace.cli.terminal.duration import parse_duration
from headrace.cli.terminal.epilog import epilog
from headrace.cli.terminal.option import (
    AuditOption,
    BrokersOption,
    SettingsOption,
    TracebackOption,
    VerboseOption,
    bootstrap_servers,
    kafka_login,
    kafka_names,
)
from headrace.cli.terminal.output import print_fields, print_json, print_rows
from headrace.cli.terminal.output_format import FormatOption, OutputFormat
from headrace.cli.terminal.pair import parse_pairs
from headrace.config.properties import property_values
from headrace.flow.error import FlowError
from headrace.flow.execution.rebalance import PARTITIONS
from headrace.flow.monitoring.metrics import FlowFigures
from headrace.flow.plan.graph import Graph
from headrace.flow.plan.plan import Latency, Plan
from headrace.flow.remote.running_flow import RemoteFlow
from headrace.flow.storage.location import Location
from headrace.model.clock import SystemClock
from headrace.model.error import ConfigError

_LISTED = ("name", "pid", "application", "host", "state", "age", "master", "checkpoint", "console")

app = typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode=None)


class DeployMode(StrEnum):
    """Where a flow's driver runs."""

    CLIENT = "client"
    CLUSTER = "cluster"


PairsOption = Annotated[
    list[str] | None,
    typer.Option(
        "-X",
        metavar="KEY=VALUE",
        help="An argument of the program, or a setting: spark.*, kafka.*, source.*, sink.*, ...",
    ),
]
FilterOption = Annotated[
    Path | None, typer.Option("--filter", metavar="FILE", help="-X pairs in a properties file.")
]
ProgramArgument = Annotated[
    str,
    typer.Argument(metavar="PROGRAM", help="FILE.py, FILE.yaml, FILE.properties or module:name."),
]

_RUN = """
Examples:

  headrace flow run word_count.py                               until Ctrl-C, on this machine

  headrace flow run words:topology --master spark://host:7077   on a cluster

  headrace flow run words.py --master yarn --deploy-mode cluster --environment environment.tar.gz

  headrace flow run topology.yaml -X input=lines                Flux, with ${input} filled in

  headrace flow run word_count.py --batch --from @2026-11-01 --to @2026-11-02

  headrace flow run word_count.py --for 30s -X metrics.topic=metrics

A second run with the same checkpoint continues where the first one stopped.
"""
_PACK = """
Examples:

  headrace flow pack -o environment.tar.gz

  headrace flow run words.py --master yarn --environment environment.tar.gz

Every machine needs the Python that the environment was created with, at the same path.
"""


@app.command(epilog=epilog(_RUN))
def run(
    program: ProgramArgument,
    brokers: BrokersOption = None,
    local: Annotated[bool, typer.Option("--local", help="On this machine: the default.")] = False,
    master: Annotated[str | None, typer.Option(metavar="URL", help="Spark's master.")] = None,
    deploy_mode: Annotated[
        DeployMode,
        typer.Option(help="Where the driver runs: here, or in the cluster (YARN, Kubernetes)."),
    ] = DeployMode.CLIENT,
    environment: Annotated[
        str | None,
        typer.Option(metavar="FILE|URI", help="Python for the cluster, of `flow pack`."),
    ] = None,
    batch: Annotated[bool, typer.Option("--batch", help="Records up to now, then end.")] = False,
    first: Annotated[
        str | None, typer.Option("--from", metavar="OFFSET", help="With --batch: begin there.")
    ] = None,
    past: Annotated[
        str | None, typer.Option("--to", metavar="OFFSET", help="With --batch: end before it.")
    ] = None,
    duration: Annotated[
        str | None, typer.Option("--for", metavar="TIME", help="End after 30s, 2m or 1h.")
    ] = None,
    available_now: Annotated[
        bool, typer.Option("--available-now", help="As a stream, records up to now, then end.")
    ] = False,
    checkpoint: Annotated[
        str | None,
        typer.Option(metavar="DIR|URI", help="A folder, or hdfs://…; default NAME.checkpoint."),
    ] = None,
    audit: AuditOption = None,
    create_topics: Annotated[
        bool, typer.Option("--create-topics", help="Create missing topics.")
    ] = False,
    verbose: VerboseOption = False,
    traceback: TracebackOption = False,
    pairs: PairsOption = None,
    filter_file: FilterOption = None,
) -> None:
    """Run a program. Ctrl-C or SIGTERM stops it after the current batch."""
    if local and master:
        raise ConfigError("--local and --master exclude each other: leave one out")
    if (first or past) and not batch:
        raise ConfigError("--from and --to are for --batch: a stream continues where it stopped")
    if batch and (duration or available_now or checkpoint):
        raise ConfigError(
            "--batch ends by itself and has no checkpoint: leave out --for,"
            " --available-now and --checkpoint"
        )
    seconds = None if duration is None else parse_duration(duration)
    if deploy_mode is DeployMode.CLUSTER:
        from headrace.cli.flow.submit import check_runs_drivers

        check_runs_drivers(master)  # before topics are made
    if audit is not None:
        pairs = [*(pairs or ()), f"audit={'on' if audit else 'off'}"]
    loaded, given = _load(program, brokers, pairs, filter_file, create_topics=create_topics)
    from headrace.cli.flow.flow_run import RunOptions
    from headrace.cli.flow.submit import environment_settings

    shipped = environment_settings(environment, loaded.plan.settings)
    if shipped:
        plan = replace(loaded.plan, settings={**loaded.plan.settings, **shipped})
        loaded = replace(loaded, plan=plan)
    location = Location.of(checkpoint or f"{loaded.plan.name}.checkpoint")
    options = RunOptions(
        program=program,
        brokers=loaded.brokers or given.brokers,
        checkpoint=location,
        master="local[*]" if local else master,
        seconds=seconds,
        once=available_now,
        verbose=verbose,
        traceback=traceback,
    )
    if not batch:
        options = options.with_spark_log(loaded.plan.name)
    if create_topics:
        _create_topics(loaded.plan, options.brokers)
    if deploy_mode is DeployMode.CLUSTER:
        times = {"--from": first, "--to": past, "--for": duration, "--checkpoint": checkpoint}
        flags = {"--batch": batch, "--available-now": available_now, "--traceback": traceback}
        arguments = [word for key, value in times.items() if value for word in (key, value)]
        _submit(loaded.plan, given, options, [*arguments, *(key for key in flags if flags[key])])
        return
    if batch or options.is_first_run():
        # After the first run a missing topic is data loss, and failOnDataLoss decides about it.
        from headrace.cli.flow.topic import check_inputs

        check_inputs(loaded.plan)
    if batch:
        _run_batch(loaded.plan, options, first, past)
    else:
        _run_stream(loaded, options)


def _submit(plan: Plan, given: ProgramArguments, options: Any, arguments: list[str]) -> None:
    """Run the same command with the driver in the cluster. Spark gets its settings from
    `spark-submit`, the driver all others."""
    from headrace.cli.flow.submit import Submission, submit

    login = {key: text for key, text in given.login.items() if plan.settings.get(key) == text}
    pairs = {key: text for key, text in given.pairs.items() if not _is_spark(key)}
    submit(
        Submission(
            name=plan.name,
            program=options.program,
            master=options.master,
            arguments=["-b", given.brokers, *arguments],
            settings={key: value for key, value in plan.settings.items() if _is_spark(key)},
            login=login,
            pairs=pairs,
        )
    )


def _is_spark(key: str) -> bool:
    return key.startswith("spark.")


@app.command(epilog=epilog(_PACK))
def pack(
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="FILE", help="The archive to write.")
    ] = Path("environment.tar.gz"),
    without: Annotated[
        list[str] | None, typer.Option(metavar="PACKAGE", help="Leave a package out.")
    ] = None,
) -> None:
    """Pack this Python environment for the machines of a cluster."""
    from headrace.cli.flow.pack import pack_environment

    size = pack_environment(output, without=without or ())
    print(f"{output}: {size / 1e6:.0f} MB. Ship it with headrace flow run --environment {output}")


def _run_batch(plan: Plan, options: Any, first: str | None, past: str | None) -> None:
    from headrace.cli.flow.flow_run import spark_for
    from headrace.cli.flow.plan_range import bounded
    from headrace.flow.execution.job import run_batch
    from headrace.flow.plan.check_plan import check_plan

    check_plan(plan)
    clock = SystemClock()
    begin = None if first is None else parse_offset_spec(first, clock)
    end = None if past is None else parse_offset_spec(past, clock)
    plan = bounded(plan, begin, end)
    with spark_for(plan.name, options, plan.settings) as spark:
        run_batch(plan, spark, brokers=options.brokers)
    print(f"{plan.name} is done.", flush=True)


def _run_stream(program: LoadedProgram, options: Any) -> None:
    from headrace.cli.flow.control_link import control_link
    from headrace.cli.flow.execution import plan_execution
    from headrace.cli.flow.flow_run import is_first_run, started
    from headrace.cli.flow.topic import check_inputs
    from headrace.flow.plan.check_plan import check_plan
    from headrace.flow.remote.control_setting import check_control

    plan = program.plan
    check_plan(plan)
    check_control(plan.settings)
    realtime = plan.latency is Latency.REALTIME
    with started(plan.name, options, plan.settings, realtime=realtime) as (spark, stopped, watch):
        if options.is_first_run() is None and is_first_run(spark, options):
            check_inputs(plan)
        execution = plan_execution(program, options, spark, stopped, watch)
        with control_link(plan, options.brokers, spark, execution.metrics.figures):
            execution.run()


def _create_topics(plan: Plan, brokers: str) -> None:
    from headrace.cli.flow.topic import create_missing

    created = create_missing(plan, brokers)
    if created:
        print(f"Created {', '.join(created)}.", flush=True)


@app.command(name="list")
def list_flows(
    brokers: BrokersOption = None,
    settings: SettingsOption = None,
    style: FormatOption = OutputFormat.TEXT,
) -> None:
    """List the flows that run on this machine, and those in clusters that the brokers know of."""
    rows = [
        [fields[name] for name in _LISTED]
        for fields in map(fields_of, running_flows(brokers, settings))
    ]
    print_rows(style, _LISTED, rows)


@app.command()
def describe(
    program: Annotated[str, typer.Argument(metavar="NAME|PROGRAM", help="A flow, or a program.")],
    brokers: BrokersOption = None,
    svg: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also write the picture to a file.")
    ] = None,
    plan: Annotated[bool, typer.Option("--plan", help="Show Spark's plan of a program.")] = False,
    pairs: PairsOption = None,
    filter_file: FilterOption = None,
    style: FormatOption = OutputFormat.TEXT,
) -> None:
    """Draw the graph of a running flow, or of a program."""
    from headrace.flow.plan.check_plan import check_plan

    running = None if _is_program(program) else named_flow(program, brokers)
    if plan and isinstance(running, RemoteFlow):
        # What its report calls the program is a text that others wrote, and is not run here.
        raise FlowError(f"{program} runs on {running.run.host}: give --plan its program instead")
    loaded = None
    if running is None or plan:
        source = program if running is None else running.run.program
        loaded = _load(source, brokers, pairs, filter_file)[0].plan
        check_plan(loaded)
    if loaded is not None:
        graph = Graph.of(loaded)
    else:
        assert running is not None
        graph = running.graph
    if style is OutputFormat.JSON:
        print_json({**({"run": fields_of(running)} if running else {}), "graph": graph.to_json()})
    else:
        from rich.console import Console

        from headrace.cli.flow.drawing import draw

        if running is not None:
            print_fields(fields_of(running))
            print()
        draw(graph, Console())
    if svg is not None:
        from headrace.flow.plan.graph_svg import to_svg

        svg.write_text(to_svg(graph))
    if plan and loaded is not None:
        _explain(loaded)


def _is_program(text: str) -> bool:
    return ":" in text or Path(text).suffix in (".py", ".yaml", ".yml", ".properties")


def _explain(plan: Plan) -> None:
    from headrace.cli.flow.flow_run import RunOptions, spark_for
    from headrace.flow.execution.compile import compile_plan

    options = RunOptions(program="", brokers="", checkpoint=Location("."), master="local[1]")
    # As many as a run on this machine has: Spark's default of 200 is for a cluster.
    settings = {PARTITIONS: str(os.cpu_count() or 1), **plan.settings}
    with spark_for(plan.name, options, settings) as spark:
        compile_plan(plan, spark, streaming=True).frame.explain(mode="formatted")


@app.command()
def metrics(
    name: NameArgument,
    watch: Annotated[bool, typer.Option("--watch", help="Once per second, until Ctrl-C.")] = False,
    brokers: BrokersOption = None,
    settings: SettingsOption = None,
    style: FormatOption = OutputFormat.TEXT,
) -> None:
    """Show what a running flow does: tuples, failures, latency, capacity, batch times, state, lag.

    Prometheus reads the same figures from /metrics at the address that `describe` calls metrics.
    """
    flow = find_flow(name, brokers, settings)
    if not watch:
        _print_figures(flow.figures(), style)
        return
    from headrace.cli.flow.figures_display import watching
    from headrace.cli.terminal.stop import Stop

    with Stop() as stop, watching() as (show, _):
        while not stop.requested and flow.alive:
            show(flow.figures())
            time.sleep(1.0)


def _print_figures(figures: FlowFigures, style: OutputFormat) -> None:
    if style is OutputFormat.JSON:
        print_json(json.loads(figures.to_json()))
        return
    print(line_of(figures))
    if figures.components:
        print_rows(style, HEADINGS, rows_of(figures))


def _load(
    program: str,
    brokers: str | None,
    pairs: list[str] | None,
    filter_file: Path | None,
    *,
    create_topics: bool = False,
) -> tuple[LoadedProgram, ProgramArguments]:
    texts = kafka_names(_filter(filter_file) | parse_pairs(pairs, "-X"))
    brokers = brokers or texts.pop("bootstrap.servers", None) or texts.pop("brokers", None)
    given = ProgramArguments(bootstrap_servers(brokers), texts, create_topics, login=kafka_login())
    return load_program(program, given), given


def _filter(path: Path | None) -> dict[str, str]:
    """Return the pairs of a properties file, as Flux's --filter reads it."""
    return {} if path is None else property_values(path)


for _command in (control.stop, control.restart, control.activate, control.deactivate):
    app.command()(_command)
app.command(epilog=epilog(control.REBALANCE))(control.rebalance)
app.command(epilog=epilog(land_command.EXAMPLES))(land_command.land)
