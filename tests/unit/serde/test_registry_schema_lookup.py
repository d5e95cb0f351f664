"""What a broker is answered about a schema, by what the registry says."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from headrace.model.error import ServiceUnavailable
from headrace.model.topic_config import SUBJECT_NAME_STRATEGIES
from headrace.serde.error import RegistryError
from headrace.serde.registry_client import RegistryClient
from headrace.serde.registry_client_settings import RegistryClientSettings
from headrace.serde.registry_schema_lookup import RegistrySchemaLookup

HEAD = b"\0\0\0\0\x07"
TOPIC_NAME = SUBJECT_NAME_STRATEGIES[0]
RECORD_NAME = "io.confluent.kafka.serializers.subject.RecordNameStrategy"


@contextmanager
def registry(status: int, answers: dict[str, object]) -> Iterator[RegistrySchemaLookup]:
    """Yield the lookup at a registry with these answers, by path without its query."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps(answers[self.path.partition("?")[0]]).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        url = f"http://127.0.0.1:{server.server_port}"
        lookup = RegistrySchemaLookup(
            RegistryClient(RegistryClientSettings.of({"schema.registry.url": url}))
        )
        try:
            yield lookup
        finally:
            lookup.close()
            server.shutdown()
            thread.join()


@pytest.mark.parametrize("status", [401, 403, 429, 500, 503])
def test_a_registry_that_refuses_whatever_it_is_asked_is_unavailable(status: int) -> None:
    refusal = {"error_code": status, "message": "not now"}
    with (
        registry(status, {"/schemas/ids/7/subjects": refusal}) as lookup,
        pytest.raises(ServiceUnavailable, match="not now"),
    ):
        lookup.knows("t", HEAD, key=False, strategy=TOPIC_NAME)


def test_a_registry_that_refuses_one_question_is_available() -> None:
    refusal = {"error_code": 400, "message": "what?"}
    with (
        registry(400, {"/schemas/ids/7/subjects": refusal}) as lookup,
        pytest.raises(RegistryError, match="what"),
    ):
        lookup.knows("t", HEAD, key=False, strategy=TOPIC_NAME)


def test_a_schema_that_cannot_be_read_is_under_no_record_name() -> None:
    answers = {"/schemas/ids/7/subjects": ["R"], "/schemas/ids/7": {"schema": "no schema"}}
    with registry(200, answers) as lookup:
        assert not lookup.knows("t", HEAD, key=False, strategy=RECORD_NAME)
