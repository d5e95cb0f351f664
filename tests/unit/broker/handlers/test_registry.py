"""Every API that is served has a handler in the file of its name."""

import pytest

from headrace.broker.handlers import registry
from headrace.wire.api import ApiKey


@pytest.mark.parametrize("api", sorted(registry.SERVED), ids=lambda api: api.name.lower())
def test_a_served_api_has_its_handler(api: ApiKey) -> None:
    assert callable(registry.load(api))


def test_all_of_them_can_be_loaded_ahead() -> None:
    registry.load_all()
