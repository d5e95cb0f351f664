"""The authorizer that the settings ask for."""

import pytest

from headrace.broker.auth.resource import Operation, ResourceType
from headrace.broker.config.settings import BrokerSettings
from headrace.broker.guard import configured_authorizer
from headrace.model.error import ConfigError

AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


def test_without_an_authorizer_requests_are_not_checked() -> None:
    assert configured_authorizer(BrokerSettings({})) is None


def test_super_users_come_from_the_configuration() -> None:
    settings = BrokerSettings(
        {"authorizer.class.name": AUTHORIZER, "super.users": "User:root;User:ops"}
    )

    authorizer = configured_authorizer(settings)

    assert authorizer is not None
    for user, expected in (("User:ops", True), ("User:anna", False)):
        allowed = authorizer.allows(
            user, "h", Operation.ALTER, ResourceType.CLUSTER, "kafka-cluster"
        )
        assert allowed is expected


def test_a_super_user_needs_its_type() -> None:
    settings = BrokerSettings({"authorizer.class.name": AUTHORIZER, "super.users": "root"})

    with pytest.raises(ConfigError, match="User:root"):
        configured_authorizer(settings)
