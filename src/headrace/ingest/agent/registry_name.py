"""Names of Java classes in configurations, for the few that stand for a choice of ours."""


def last_word(name: str) -> str:
    """The class without its package and without `$Builder`.

    >>> last_word("org.apache.flume.serialization.AvroEventSerializer$Builder")
    'AvroEventSerializer'
    """
    return name.rpartition(".")[2].partition("$")[0]
