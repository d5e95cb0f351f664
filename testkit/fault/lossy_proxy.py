"""A network that loses responses: requests get through, then the connection ends."""

import select
import socket
import threading
from types import TracebackType

_BUFFER_BYTES = 1 << 20
# A connection that has carried less has only exchanged versions: those responses get through.
_BULK_BYTES = 10_000


class LossyProxy:
    """Passes connections on to one broker, and cuts them on request.

    After `lose_answers(n)`, n connections on which records were sent end when the broker responds:
    the broker has carried out the request, and its client gets no response.

    After `cut_after(a, b)`, the next two connections end in the middle of a response, after so many
    bytes of it.

    Example:
        with LossyProxy() as proxy:
            broker.settings["advertised.listeners"] = f"PLAINTEXT://{proxy.address}"
            broker.start()
            proxy.target(broker.address)
    """

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._target: tuple[str, int] | None = None
        self._lock = threading.Lock()
        self._to_lose = 0
        self.lost = 0
        self._cuts: list[int] = []
        self.cut = 0
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def address(self) -> str:
        host, port = self._listener.getsockname()
        return f"{host}:{port}"

    def target(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._target = (host, int(port))

    def lose_answers(self, count: int) -> None:
        """Lose the next `count` responses to produce requests, each with its connection."""
        with self._lock:
            self._to_lose += count

    def cut_after(self, *sizes: int) -> None:
        """Cut one new connection per size, after it has carried so many bytes of responses."""
        with self._lock:
            self._cuts += sizes

    def _run(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        assert self._target is not None
        with client:
            try:
                broker = socket.create_connection(self._target)
            except OSError:
                return
            with broker:
                self._pass_on(client, broker)

    def _pass_on(self, client: socket.socket, broker: socket.socket) -> None:
        carried = 0
        with self._lock:
            left = self._cuts.pop(0) if self._cuts else None
        while True:
            readable, _, _ = select.select([client, broker], [], [])
            try:
                if client in readable:
                    data = client.recv(_BUFFER_BYTES)
                    if not data:
                        return
                    carried += len(data)
                    broker.sendall(data)
                if broker in readable:
                    data = broker.recv(_BUFFER_BYTES)
                    if not data or (carried > _BULK_BYTES and self._loses()):
                        return
                    client.sendall(data if left is None else data[:left])
                    if left is not None:
                        left -= len(data)
                        if left <= 0:
                            self.cut += 1
                            return
            except OSError:
                return

    def _loses(self) -> bool:
        with self._lock:
            if not self._to_lose:
                return False
            self._to_lose -= 1
            self.lost += 1
            return True

    def __enter__(self) -> "LossyProxy":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._listener.close()
