"""A flow sent to Kubernetes: what Spark asks of an API that keeps it and runs nothing.

So the pods are as Spark's own client describes them; that they run is not shown here.
"""

import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyspark
import pytest

from headrace.process.die_with_parent import die_with_parent
from testkit.peer.java import SHORT_RUNS
from testkit.peer.kubernetes_api import KubernetesApi
from testkit.peer.kubernetes_jars import KUBERNETES_CLIENT_VERSION
from testkit.peer.peer import PeerMissing, require_peer

SECONDS = 300.0
PROGRAM = Path(__file__).with_name("program") / "yarn_words.py"
SETTINGS = {
    "spark.kubernetes.container.image": "flows/words:1",
    "spark.kubernetes.namespace": "flows",
    "spark.kubernetes.authenticate.driver.serviceAccountName": "spark",
    "spark.kubernetes.driver.secrets.words-login": "/etc/headrace",
    "spark.kubernetes.driverEnv.HEADRACE_CLIENT_CONFIG": "/etc/headrace/client.properties",
    "spark.executor.instances": "2",
    "spark.kubernetes.submission.waitAppCompletion": "false",
    "spark.driver.memory": "1g",
    "prefix": "words",
}


@pytest.fixture
def kubernetes(tmp_path: Path) -> Iterator[KubernetesApi]:
    try:
        with KubernetesApi(tmp_path / "kubernetes") as running:
            yield running
    except PeerMissing as missing:
        require_peer(str(missing))


def resources(kubernetes: KubernetesApi, kind: str) -> list[Any]:
    with urllib.request.urlopen(f"{kubernetes.url}/api/v1/namespaces/flows/{kind}") as answer:
        return list(json.load(answer)["items"])


def test_the_mock_is_that_of_sparks_own_client() -> None:
    jars = Path(pyspark.__file__).parent / "jars"
    assert (jars / f"kubernetes-client-{KUBERNETES_CLIENT_VERSION}.jar").exists()


def test_the_driver_is_a_pod_with_a_service_and_without_a_password(
    kubernetes: KubernetesApi, tmp_path: Path
) -> None:
    login = tmp_path / "client.properties"
    login.write_text(
        "bootstrap.servers=b:9093\nsecurity.protocol=SASL_SSL\nsasl.mechanism=PLAIN\n"
        "sasl.username=anna\nsasl.password=apple-of-anna\n"
    )
    submitted = subprocess.run(
        [
            *(sys.executable, "-m", "headrace.cli.main", "flow", "run", str(PROGRAM)),
            *("--master", f"k8s://{kubernetes.url}", "--deploy-mode", "cluster"),
            *("--checkpoint", "s3a://flows/words"),
            *(f"-X{key}={value}" for key, value in SETTINGS.items()),
        ],
        env={**os.environ, **SHORT_RUNS, "HEADRACE_CLIENT_CONFIG": str(login)},
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        preexec_fn=die_with_parent,
        check=False,
    )
    assert submitted.returncode == 0, submitted.stdout + submitted.stderr

    [driver] = resources(kubernetes, "pods")
    [container] = driver["spec"]["containers"]
    variables = {each["name"]: each.get("value") for each in container["env"]}
    mounts = {each["mountPath"]: each["name"] for each in container["volumeMounts"]}
    secrets = {
        each["name"]: each["secret"]["secretName"]
        for each in driver["spec"]["volumes"]
        if "secret" in each
    }
    words = container["args"]
    assert driver["metadata"]["labels"]["spark-role"] == "driver"
    assert driver["spec"]["serviceAccountName"] == "spark"
    assert container["image"] == "flows/words:1"
    assert variables["HEADRACE_CLIENT_CONFIG"] == "/etc/headrace/client.properties"
    assert secrets[mounts["/etc/headrace"]] == "words-login"
    main = words.index("local:///opt/headrace/main.py")
    assert words[main + 1 : main + 5] == ["flow", "run", PROGRAM.name, "--verbose"]
    assert words[words.index("--checkpoint") + 1] == "s3a://flows/words"

    [service] = resources(kubernetes, "services")
    assert service["spec"]["clusterIP"] == "None"
    assert {"driver-rpc-port", "blockmanager"} <= {
        each["name"] for each in service["spec"]["ports"]
    }
    labels = driver["metadata"]["labels"]
    assert service["spec"]["selector"].items() <= labels.items()

    everything = json.dumps([resources(kubernetes, kind) for kind in ("pods", "configmaps")])
    assert "spark.executor.instances=2" in everything
    assert "apple-of-anna" not in everything + submitted.stdout + submitted.stderr
