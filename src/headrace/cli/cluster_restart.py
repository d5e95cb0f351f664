"""`headrace cluster restart`: restart the brokers of one `headrace up`; see `rolling_restart`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from headrace.cli.rolling_restart import RollingRestart, cluster_of
from headrace.cli.supervisor.restart_lock import restart_lock
from headrace.cli.supervisor.supervisor_socket import ask_supervisor
from headrace.cli.terminal.epilog import epilog
from headrace.cli.terminal.option import BrokersOption, SettingsOption, client_settings
from headrace.cli.terminal.output import print_json
from headrace.cli.terminal.output_format import FormatOption, OutputFormat
from headrace.client.error import ClientError

_KILLED_CODE = 3

_EXAMPLES = """
Examples:

  headrace cluster restart                              the brokers of the headrace up in ./data

  headrace cluster restart --data /var/lib/headrace --broker 2 --broker 3

  headrace cluster restart -X security.protocol=SASL_PLAINTEXT -X sasl.mechanism=PLAIN -X sasl.username=admin
"""  # noqa: E501, an example is one line


def register(app: typer.Typer) -> None:
    """Add this verb to `headrace cluster`."""
    app.command("restart", epilog=epilog(_EXAMPLES))(restart)


def restart(
    data: Annotated[
        Path, typer.Option(metavar="DIR", help="The data directory of that headrace up.")
    ] = Path("data"),
    broker: Annotated[
        list[int] | None, typer.Option("--broker", help="Only these brokers, by id.")
    ] = None,
    timeout: Annotated[
        float,
        typer.Option(metavar="SECONDS", min=1, help="How long to wait for each broker."),
    ] = 300.0,
    hand_over: Annotated[
        float,
        typer.Option(
            metavar="SECONDS",
            min=1,
            max=86_400,
            help="How long a broker may take to hand over and end, before it is killed.",
        ),
    ] = 120.0,
    allow_unavailable: Annotated[
        bool,
        typer.Option(
            "--allow-unavailable",
            help="Also if partitions have too few replicas: some cannot be written to meanwhile, "
            "and those with one replica cannot be read either.",
        ),
    ] = False,
    format: FormatOption = OutputFormat.TEXT,
    brokers: BrokersOption = None,
    setting: SettingsOption = None,
) -> None:
    """Restart the brokers of a `headrace up --brokers N` one by one, while clients go on.

    Each hands its leaders over first, and the next one waits until it is in sync again. The user
    must be allowed to describe all topics, and to alter the cluster.
    """
    status = ask_supervisor(data, {"command": "status"})
    settings = client_settings(brokers or status["address"], setting)
    own = [each["id"] for each in status["brokers"]]
    with restart_lock(data) as lock:
        rolling = RollingRestart(
            data,
            settings,
            timeout,
            hand_over=hand_over,
            cluster_id=cluster_of(data, own),
            allow_unavailable=allow_unavailable,
            lock=lock,
        )
        chosen = rolling.check(broker or own)
        try:
            done = _restart_all(rolling, chosen, format)
        except ClientError as error:
            if not rolling.killed:
                raise
            typer.echo(f"headrace: {error}", err=True)
            raise typer.Exit(_KILLED_CODE) from error
    restarted, left = chosen[: len(done)], chosen[len(done) :]
    problem = rolling.balance_leaders(restarted)
    if problem is not None:  # the brokers elect them later, too
        typer.echo(f"warning: leaders are not balanced yet: {problem}", err=True)
    if rolling.killed:
        typer.echo(f"headrace: {_killed_sentence(rolling.killed[0], left)}", err=True)
        raise typer.Exit(_KILLED_CODE)


def _restart_all(
    rolling: RollingRestart, chosen: Sequence[int], format: OutputFormat
) -> list[dict[str, Any]]:
    """Restart one broker after the other, until all are done or one had to be killed."""
    done: list[dict[str, Any]] = []
    for number in chosen:
        row = rolling.restart(number)
        done.append(row)
        if format is not OutputFormat.JSON:
            print(
                f"broker {number} was away for {row['away_seconds']:.1f} s, and is in sync after "
                f"{row['in_sync_seconds']:.1f} s",
                flush=True,
            )
        if rolling.killed:
            break
    if format is OutputFormat.JSON:
        print_json(done)
    else:
        print(f"{len(done)} broker{'s' * (len(done) != 1)} restarted", flush=True)
    return done


def _killed_sentence(killed: int, left: Sequence[int]) -> str:
    sentence = (
        f"broker {killed} did not end within the time of --hand-over and was killed. It is back "
        "and in sync; its last lines in the output of headrace up may say why it hung"
    )
    if left:
        options = " ".join(f"--broker {each}" for each in left)
        sentence += f". The others are not restarted: run the command again with {options}"
    return sentence
