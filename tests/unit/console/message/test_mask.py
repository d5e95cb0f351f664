"""Masks as an operator writes them."""

import pytest

from headrace.console.message.mask import Masks
from headrace.model.error import ConfigError


@pytest.mark.parametrize("text", ["", ":email", "payments:"])
def test_a_mask_that_hides_nothing_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        Masks([text])
