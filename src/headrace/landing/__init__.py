"""Tables from topics: a topic's records as rows of a Delta or Iceberg table, each exactly once.

    from headrace.landing.lander import Lander, LandingOptions
    from headrace.landing.row.raw import RawDecoder
    from headrace.landing.source import Source
    from headrace.model.table.table_name import TableName

    options = LandingOptions(table=TableName.parse("delta:lake/clicks"), follow=False)
    Lander(settings, Source(topic="clicks", topic_id=None), RawDecoder(), options).run()

`lander` reads a topic, `row` makes rows of its records, `committer` writes and commits them, and
`delta_table` and `iceberg_table` keep the offsets in the same commit. Users read `docs/tables.md`.
"""
