"""StartStreamEncryption and StopStreamEncryption."""

from headrace.gateway.kinesis.error import invalid_argument
from headrace.gateway.kinesis.service import KinesisService, Request, Response
from headrace.gateway.kinesis.stream.reshard_plan import check_active
from headrace.gateway.kinesis.stream.stream_state import StreamState


def start_encryption(service: KinesisService, request: Request) -> Response:
    """Encrypt the records that are put from now on."""
    _check_type(request)

    def step(stream: StreamState) -> StreamState:
        check_active(stream, service.account.id)
        started = service.ciphers.started(stream, request["KeyId"], service.now_ms())
        if started is stream:
            return stream  # encrypted with this key already
        return service.used(started, "StartStreamEncryption")

    service.change(request, step)
    return {}


def stop_encryption(service: KinesisService, request: Request) -> Response:
    """Put plain records from now on."""
    _check_type(request)

    def step(stream: StreamState) -> StreamState:
        check_active(stream, service.account.id)
        if stream.data_key is None:
            raise invalid_argument(f"Stream {stream.name} is not encrypted.")
        if stream.data_key.key_id != request["KeyId"]:
            raise invalid_argument(
                f"Stream {stream.name} is encrypted with another key than {request['KeyId']}."
            )
        stream = service.used(stream, "StopStreamEncryption")
        return service.ciphers.stopped(stream, service.now_ms())

    service.change(request, step)
    return {}


def _check_type(request: Request) -> None:
    if request["EncryptionType"] != "KMS":
        raise invalid_argument("EncryptionType must be KMS.")
