"""Where a session gets Spark's own Kafka connector from."""

from pathlib import Path

import pyspark
import pytest

from headrace.spark.connector import connector_config, connector_coordinate, connector_folder


@pytest.fixture(autouse=True)
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


def test_spark_fetches_the_connector_of_its_own_version() -> None:
    assert connector_config({}) == {
        "spark.jars.packages": f"org.apache.spark:spark-sql-kafka-0-10_2.13:{pyspark.__version__}"
    }


def test_packages_that_the_user_names_stay() -> None:
    config = connector_config({"spark.jars.packages": "org.example:tool:1.0"})

    assert config["spark.jars.packages"] == f"org.example:tool:1.0,{connector_coordinate()}"


def test_jars_in_the_folder_are_taken_without_a_download() -> None:
    jar = install_jar("spark-sql-kafka-0-10_2.13-4.2.0.jar")
    needed = install_jar("kafka-clients-3.9.2.jar")

    assert connector_config({}) == {"spark.jars": f"{needed},{jar}"}


def test_a_jar_that_spark_has_itself_is_left_out() -> None:
    jar = install_jar("spark-sql-kafka-0-10_2.13-4.2.0.jar")
    own = next((Path(pyspark.__file__).parent / "jars").glob("slf4j-api-*.jar"))
    install_jar(own.name)

    assert connector_config({}) == {"spark.jars": str(jar)}


def test_a_folder_without_the_connector_itself_does_not_count() -> None:
    install_jar("kafka-clients-3.9.2.jar")

    assert list(connector_config({})) == ["spark.jars.packages"]


@pytest.mark.parametrize("key", ["spark.jars", "spark.jars.packages"])
def test_a_connector_that_the_user_names_is_the_only_one(key: str) -> None:
    assert connector_config({key: "spark-sql-kafka-0-10_2.13-4.2.0.jar"}) == {}


def install_jar(name: str) -> Path:
    path = connector_folder() / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"jar")
    return path
