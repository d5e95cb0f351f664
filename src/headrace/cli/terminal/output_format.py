"""`--format`, an option of every noun."""

from enum import StrEnum
from typing import Annotated

import typer


class OutputFormat(StrEnum):
    """How results are printed: for people or for programs."""

    TEXT = "text"
    JSON = "json"


FormatOption = Annotated[OutputFormat, typer.Option("--format", help="How to print the result.")]
