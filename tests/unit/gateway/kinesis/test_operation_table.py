"""The page says what works, operation by operation."""

import re
from pathlib import Path

from headrace.gateway.kinesis.operation.table import OPERATIONS, SUBSCRIBE
from headrace.gateway.kinesis.protocol.service_model import service_model

PAGE = (Path(__file__).parents[4] / "docs" / "kinesis.md").read_text()


def section(heading: str) -> set[str]:
    """Return the operations that the first paragraph below a heading names."""
    text = PAGE.partition(f"\n## {heading}\n\n")[2].partition("\n\n")[0]
    return set(re.findall(r"\b[A-Z]\w+\b", text)) & set(service_model().operations)


def test_the_page_lists_every_operation_where_it_belongs() -> None:
    assert {*OPERATIONS, SUBSCRIBE} == set(service_model().operations)
    assert section("What works") == {*OPERATIONS, SUBSCRIBE}
