"""Names of Java classes in configurations, for the few that stand for a choice of ours."""


def simple_name(name: str) -> str:
    """The class without its package and without `$Builder`.

    >>> simple_name("org.apache.flume.serialization.AvroEventSerializer$Builder")
    'AvroEventSerializer'
    """
    return name.rpartition(".")[2].partition("$")[0]
