"""Paths into JSON values."""

import pytest

from headrace.console.message.json_path import MISSING, look_up, parse_path
from headrace.model.error import InvalidArgument


def test_paths_lead_into_values() -> None:
    value = {"items": [{"id": 7}], "none": None}
    assert look_up(value, parse_path("$.items[0].id")) == 7
    assert look_up(value, parse_path("none")) is None
    assert look_up(value, parse_path("items[1].id")) is MISSING
    assert look_up(value, parse_path("items.id")) is MISSING


@pytest.mark.parametrize("text", ["", "$", "a..b", "a[", "a[x]", "[0]b"])
def test_a_text_that_is_no_path_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument):
        parse_path(text)
