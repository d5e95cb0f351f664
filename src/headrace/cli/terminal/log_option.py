"""`--log-level` and `--log-format` of the commands that serve until a signal stops them."""

from typing import Annotated

import typer

from headrace.telemetry.logging import LEVELS

LogLevelOption = Annotated[str, typer.Option(help=", ".join(LEVELS) + ".")]
LogFormatOption = Annotated[str, typer.Option(help="text or json.")]
