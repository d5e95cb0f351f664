"""Sends a flow to a cluster that runs its driver too: `headrace flow run --deploy-mode cluster`.

Spark's own `spark-submit` does it. The driver inside the cluster is this command line again, with
the same program and arguments: what `headrace flow run` does here, it does there.
"""

import os
import re
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

from headrace.cli.flow.pack import PYTHON, UNPACKED
from headrace.config.client_file import CLIENT_CONFIG_VARIABLE
from headrace.flow.error import FlowError
from headrace.flow.monitoring.run_folder import FOLDER_VARIABLE
from headrace.model.error import ConfigError

_PAIRS = "pairs.properties"
_YARN = "yarn"
_KUBERNETES = "k8s://"
# Of any client of the flow, and whatever a program calls so itself.
_SECRET = re.compile(r"(^|\.)(sasl|ssl|security)\.|password|secret", re.IGNORECASE)
_IMAGE = "spark.kubernetes.container.image"
_LOGIN_FILE = f"spark.kubernetes.driverEnv.{CLIENT_CONFIG_VARIABLE}"
# Where the recipe in docs/spark-kubernetes.md puts the command line.
_IMAGE_MAIN = "local:///opt/headrace/main.py"
_ESCAPES = {ord(each): f"\\{each}" for each in "\\=:#"} | {
    ord(each): f"\\{letter}" for each, letter in zip("\n\r\t", "nrt", strict=True)
}
_PROGRAM_FILES = (".py", ".yaml", ".yml", ".properties")


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """What `spark-submit` is called with.

    Attributes:
        program: as the user wrote it; a file is found by its name in the cluster.
        arguments: of `headrace flow run`, after the program.
        settings: of Spark.
        login: settings of $HEADRACE_CLIENT_CONFIG.
        pairs: other settings and arguments of the program. On YARN they travel in a file, because
            a command line is seen by everyone on the machine. On Kubernetes they do not: a login is
            refused there, and so is what is called a password or a secret.
    """

    name: str
    program: str
    master: str
    arguments: Sequence[str]
    settings: Mapping[str, str]
    login: Mapping[str, str] = field(default_factory=dict)
    pairs: Mapping[str, str] = field(default_factory=dict)

    def command(self, home: Path, folder: Path) -> list[str]:
        """Return the command.

        Args:
            home: of Spark.
            folder: for a file to ship; only this user may read it.

        Raises:
            ConfigError: this master does not run drivers written in Python.
        """
        check_runs_drivers(self.master)
        if self.master == _YARN:
            return self._on_yarn(home, folder)
        return self._on_kubernetes(home)

    def _on_yarn(self, home: Path, folder: Path) -> list[str]:
        program, files = self._shipped()
        settings = {
            # The driver has no home folder in its container.
            f"spark.yarn.appMasterEnv.{FOLDER_VARIABLE}": "./flows",
            **self.settings,
        }
        arguments = list(self.arguments)
        if pairs := {**self.login, **self.pairs}:
            arguments += ["--filter", _PAIRS]
            files.append(str(_write_pairs(folder / _PAIRS, pairs)))
        shipped = ("--files", ",".join(files)) if files else ()
        return self._words(home, settings, [*shipped, _main_file()], program, arguments)

    def _on_kubernetes(self, home: Path) -> list[str]:
        """Return the command for pods: the image has the program, a Secret has the login."""
        if _IMAGE not in self.settings:
            raise ConfigError(
                f"say which image the pods run: -X {_IMAGE}=NAME (docs/spark-kubernetes.md has a"
                " recipe)"
            )
        secret = next(filter(_SECRET.search, self.pairs), None)
        if self.login and _LOGIN_FILE not in self.settings:
            secret = f"${CLIENT_CONFIG_VARIABLE}"
        if secret is not None:
            raise ConfigError(
                f"{secret} is not sent to Kubernetes, where everyone who may read pods would see"
                " it: put a client.properties into a Secret, and say"
                " -X spark.kubernetes.driver.secrets.SECRET=/etc/headrace"
                f" -X {_LOGIN_FILE}=/etc/headrace/client.properties"
            )
        program, _ = self._shipped()
        settings = {f"spark.kubernetes.driverEnv.{FOLDER_VARIABLE}": "/tmp/flows", **self.settings}  # noqa: S108
        pairs = [word for key, text in self.pairs.items() for word in ("-X", f"{key}={text}")]
        return self._words(home, settings, [_IMAGE_MAIN], program, [*self.arguments, *pairs])

    def _words(
        self,
        home: Path,
        settings: Mapping[str, str],
        main: Sequence[str],
        program: str,
        arguments: Sequence[str],
    ) -> list[str]:
        return [
            str(home / "bin" / "spark-submit"),
            *("--master", self.master, "--deploy-mode", "cluster", "--name", self.name),
            *(word for key, value in settings.items() for word in ("--conf", f"{key}={value}")),
            *main,
            *("flow", "run", program, "--verbose", *arguments),
        ]

    def _shipped(self) -> tuple[str, list[str]]:
        """Return the program as the driver finds it, and the files to ship."""
        where, colon, name = self.program.rpartition(":")
        path = Path(where if colon and not self.program.endswith(_PROGRAM_FILES) else self.program)
        if path.suffix not in _PROGRAM_FILES:
            return self.program, []
        return (f"{path.name}:{name}" if str(path) == where else path.name), [str(path.resolve())]


def _write_pairs(path: Path, pairs: Mapping[str, str]) -> Path:
    """Write pairs as `property_values` reads them: a key in PEM has several lines."""
    lines = (f"{_escaped(key)}={_escaped(value)}\n" for key, value in pairs.items())
    path.touch(mode=0o600)
    path.write_text("".join(lines))
    return path


def _escaped(text: str) -> str:
    return text.translate(_ESCAPES)


def _main_file() -> str:
    """Return the file of the command line, which imports this one."""
    found = find_spec("headrace.cli.main")
    assert found is not None
    assert found.origin is not None
    return found.origin


def environment_settings(archive: str | None, settings: Mapping[str, str]) -> dict[str, str]:
    """Return the settings that ship a packed environment and start its Python everywhere.

    Args:
        archive: a file of `headrace flow pack`, or a URI of one; None ships none.

    Raises:
        ConfigError: there is no such file.
    """
    if archive is None:
        return {}
    if "://" not in archive and not Path(archive).is_file():
        raise ConfigError(f"there is no {archive}: make it with headrace flow pack -o {archive}")
    others = [each for each in (settings.get("spark.archives"),) if each]
    return {
        "spark.archives": ",".join([f"{archive}#{UNPACKED}", *others]),
        "spark.pyspark.python": PYTHON,
    }


def check_runs_drivers(master: str | None) -> None:
    """Refuse a master that runs no driver of a program in Python; Spark's standalone one does not.

    Raises:
        ConfigError: with what to write instead.
    """
    if master is None:
        raise ConfigError("--deploy-mode cluster wants --master yarn or k8s://…: say which cluster")
    if master != _YARN and not master.startswith(_KUBERNETES):
        raise ConfigError(
            f"{master} runs no driver in Python: leave out --deploy-mode cluster, and the driver"
            f" runs here; --master {_YARN} and {_KUBERNETES}… run it in the cluster"
        )


def spark_home() -> Path:
    """Return the folder of Spark's programs: SPARK_HOME, or that of the installed PySpark."""
    import pyspark

    configured = os.environ.get("SPARK_HOME")
    return Path(configured) if configured else Path(pyspark.__file__).parent


def submit(submission: Submission) -> None:
    """Run `spark-submit`, and return when it ends: by default when the flow does.

    Raises:
        FlowError: it failed; its output says why.
    """
    home = spark_home()
    environment = {**os.environ, "SPARK_HOME": str(home)}
    with tempfile.TemporaryDirectory(prefix="headrace-submit-") as folder:
        command = submission.command(home, Path(folder))
        ended = subprocess.run(command, env=environment, check=False)  # noqa: S603
    if ended.returncode != 0:
        raise FlowError(
            f"{submission.name} failed in the cluster (spark-submit ended with"
            f" {ended.returncode}): the container's log says why"
        )
