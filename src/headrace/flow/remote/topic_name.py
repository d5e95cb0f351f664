"""The names of the two topics of flows that run elsewhere, for those who only need the names."""

from typing import Final

RUNS: Final = "headrace.flow.runs"
REQUESTS: Final = "headrace.flow.requests"
