"""What a kafka sink refuses of the settings for schemas."""

import pytest

from headrace.ingest.error import DeliveryFailed
from headrace.ingest.event import EventBatch
from headrace.ingest.format.event_schema import LITERAL_HEADER
from headrace.ingest.kafka.schema_framing import SCHEMA_SETTINGS, SchemaFraming
from headrace.ingest.settings import SettingError, Settings


def framing(**texts: str) -> SchemaFraming | None:
    named = {name.replace("_", "."): value for name, value in texts.items()}
    return SchemaFraming.of(Settings.from_texts(SCHEMA_SETTINGS, named), flume_format=False)


def test_without_a_registry_values_have_no_head() -> None:
    assert framing() is None


@pytest.mark.parametrize(
    "texts",
    [
        {"schema_subject": "s"},
        {"schema_registry_url": "nowhere"},
        {"schema_registry_basic_auth_user_info": "me:secret"},
        {"schema_registry_url": "http://h", "schema_registry_ssl_keystore_password": "x"},
        {"schema_registry_url": "http://h", "schemaURL": "hdfs://nn/s"},
    ],
)
def test_what_cannot_be_honoured_is_an_error(texts: dict[str, str]) -> None:
    with pytest.raises(SettingError):
        framing(**texts)


def test_events_stay_in_the_channel_while_no_registry_answers() -> None:
    made = framing(schema_registry_url="http://127.0.0.1:9")
    assert made is not None
    batch = EventBatch([b"\2x"], [{LITERAL_HEADER: '"string"'}])
    with pytest.raises(DeliveryFailed, match="t-value"):
        made.frame("t", batch, batch.bodies)
