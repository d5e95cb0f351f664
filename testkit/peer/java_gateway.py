"""A server written in Java that is made by calls from Python, in a process of its own.

Spark's own gateway between Python and Java makes it, so no Java source is compiled and a machine
with a Java for running programs is enough.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyspark
from py4j.java_gateway import GatewayParameters, JavaGateway

from testkit.peer.java import SHORT_RUN, find_java
from testkit.peer.java_process import JavaProcess

_GATEWAY = "py4j.GatewayServer"
_GREETING = re.compile(r"^(\d+)\r?\n(\S+)\r?\n")
_SPARK_JARS = ("slf4j-api", "log4j-slf4j2-impl", "log4j-1.2-api", "log4j-api", "log4j-core", "py4j")
_LOG_SETTINGS = """\
rootLogger.level = warn
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{HH:mm:ss.SSS} %p %c{1}: %m%n
"""


class JavaGatewayProcess(JavaProcess):
    """To implement: `_classpath`, and `_form`, which makes the server.

    Attributes:
        conf: a folder for its configuration, the first of its classpath.
        HEAP: the most memory of its Java.
    """

    HEAP = "640m"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.conf = folder / "conf"

    def start(self) -> None:
        """Return when the server is made.

        Raises:
            ServerFailed: with the last lines of its log.
        """
        super().start()
        greeting = _GREETING.match(self.log)
        assert greeting is not None
        gateway = JavaGateway(
            gateway_parameters=GatewayParameters(
                port=int(greeting.group(1)),
                auth_token=greeting.group(2),
                enable_memory_management=False,  # the server outlives this connection
            )
        )
        try:
            self._form(gateway.jvm)
        except Exception as error:
            raise self._failed(f"did not form: {error}") from error
        finally:
            gateway.close()

    def _classpath(self) -> Sequence[str]:
        raise NotImplementedError

    def _form(self, jvm: Any) -> None:
        raise NotImplementedError

    def _command(self) -> Sequence[str]:
        self.conf.mkdir(parents=True, exist_ok=True)
        (self.conf / "log4j2.properties").write_text(_LOG_SETTINGS)
        jars = Path(pyspark.__file__).parent / "jars"
        logging = [str(jar) for name in _SPARK_JARS for jar in jars.glob(f"{name}-[0-9]*.jar")]
        java = find_java()
        options = [*SHORT_RUN, f"-Xmx{self.HEAP}", f"-Djava.io.tmpdir={self.folder}"]
        return [
            *("env", f"JAVA_HOME={java.path.resolve().parent.parent}"),
            *java.command(
                _GATEWAY,
                ["--enable-auth", "0"],
                classpath=":".join([str(self.conf), *logging, *self._classpath()]),
                options=options,
            ),
        ]

    def _is_up(self) -> bool:
        return _GREETING.match(self.log) is not None
