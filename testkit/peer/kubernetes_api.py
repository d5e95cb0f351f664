"""The API of a Kubernetes without machines: pods that are asked for are kept, and never run."""

import http.client
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pyspark

from headrace.telemetry.http_server import HttpServer
from testkit.peer.java_gateway import JavaGatewayProcess
from testkit.peer.kubernetes_jars import KUBERNETES_JARS

_HOST = "127.0.0.1"
_NOT_FOUND = 404


class KubernetesApi(JavaGatewayProcess):
    """fabric8's mock of the Kubernetes API: it takes, lists and deletes any resource. fabric8 makes
    the client that Spark uses, too.

    It lacks one thing that Spark asks for: a server-side apply creates what is not there. A proxy
    in front of it adds that.

    Example:
        with KubernetesApi(tmp_path) as kubernetes:
            spark_submit("--master", f"k8s://{kubernetes.url}")

    Attributes:
        url: of the API, on loopback.
    """

    NAME = "Kubernetes"
    START_SECONDS = 120.0
    HEAP = "128m"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.url = ""
        self._proxy: HttpServer | None = None

    def kill(self) -> None:
        if self._proxy is not None:
            self._proxy.close()
            self._proxy = None
        super().kill()

    def _classpath(self) -> Sequence[str]:
        # The resources themselves are classes of the client, which Spark has.
        client = Path(pyspark.__file__).parent / "jars"
        return [KUBERNETES_JARS.find().classpath, str(client / "*")]

    def _form(self, jvm: Any) -> None:
        mock = jvm.io.fabric8.kubernetes.client.server.mock
        web = jvm.io.fabric8.mockwebserver
        expected = jvm.java.util.HashMap()
        server = mock.KubernetesMockServer(
            web.Context(), web.MockWebServer(), expected, mock.KubernetesCrudDispatcher(), False
        )
        server.init(jvm.java.net.InetAddress.getByName(_HOST), 0)
        self._proxy = _proxy(server.getPort())
        self.url = f"http://{self._proxy.address}"


def _proxy(port: int) -> HttpServer:
    """Start what passes requests on to the mock, and creates what is applied and not there."""

    class Handler(BaseHTTPRequestHandler):
        def _pass_on(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            status, answer = _request(port, self.command, self.path, body)
            if self.command == "PATCH" and status == _NOT_FOUND:
                collection = self.path.partition("?")[0].rpartition("/")[0]
                status, answer = _request(port, "POST", collection, body)
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _pass_on  # noqa: N815 - http.server's

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    server = HttpServer(_HOST, 0, Handler, name="kubernetes")
    server.start()
    return server


def _request(port: int, method: str, path: str, body: bytes) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(_HOST, port, timeout=60)
    try:
        connection.request(method, path, body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()
