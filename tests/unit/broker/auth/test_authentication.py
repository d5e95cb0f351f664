"""Where the users of PLAIN come from."""

from pathlib import Path

import pytest

from headrace.broker.auth.authentication import Authentication
from headrace.broker.config.settings import BrokerSettings
from headrace.model.clock import ManualClock
from headrace.model.error import ConfigError


def test_plain_needs_its_users() -> None:
    settings = BrokerSettings({"sasl.enabled.mechanisms": "PLAIN"})

    with pytest.raises(ConfigError, match=r"headrace\.sasl\.plain\.users\.file"):
        Authentication(settings, ManualClock())


def test_plain_reads_its_users_from_the_file(tmp_path: Path) -> None:
    path = tmp_path / "users"
    path.write_text("anna=secret\n")
    settings = BrokerSettings(
        {"sasl.enabled.mechanisms": "PLAIN", "headrace.sasl.plain.users.file": str(path)}
    )

    authentication = Authentication(settings, ManualClock())

    assert authentication.users is not None
    assert authentication.users.passwords == {"anna": "secret"}
