"""Names of Java classes in a configuration that select one of our components."""


def simple_name(name: str) -> str:
    """Return the name of a class without its package and without `$Builder`.

    >>> simple_name("org.apache.flume.serialization.AvroEventSerializer$Builder")
    'AvroEventSerializer'
    """
    return name.rpartition(".")[2].partition("$")[0]
