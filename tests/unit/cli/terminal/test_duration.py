import pytest

from headrace.cli.terminal.duration import parse_duration
from headrace.model.error import ConfigError


@pytest.mark.parametrize(
    ("text", "seconds"), [("30s", 30), ("2m", 120), ("1h", 3600), ("5", 5), ("1.5m", 90)]
)
def test_a_duration_has_a_number_and_a_unit(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "s", "-3s", "3 weeks", "0s"])
def test_what_is_no_duration_is_refused_with_the_right_spelling(text: str) -> None:
    with pytest.raises(ConfigError, match="write it as 30s, 2m or 1h"):
        parse_duration(text)
