"""Options of logging that do not exist are refused."""

import pytest

from headrace.cli.terminal.log_choice import configure_logging
from headrace.model.error import ConfigError


@pytest.mark.parametrize(
    ("level", "form", "message"),
    [
        ("loud", "text", "--log-level cannot be 'loud': write debug, info, warning, error"),
        ("info", "xml", "--log-format cannot be 'xml': write text or json"),
    ],
)
def test_a_level_or_format_that_does_not_exist_is_refused(
    level: str, form: str, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        configure_logging(level, form)
