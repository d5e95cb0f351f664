"""Streams, tables and queries in SQL.

A name is loaded on first use.

    Engine         Executes statements in a Spark session.
    Catalog        The streams and tables that statements can name.
    parse          Split a script into statements.
    QueryResult    The rows of a statement, and a message about them.
    SqlError       A mistake, shown in its line of the script.

Example:
    from headrace.flow.sql import Catalog, Engine, parse

    engine = Engine(spark, brokers, Catalog(), Path("checkpoints"))
    for statement in parse(script):
        print(engine.run(statement, script).rows)
"""

from typing import TYPE_CHECKING

from headrace.model.lazy_import import lazy_names

__all__ = ["Catalog", "Engine", "QueryResult", "SqlError", "parse"]

if TYPE_CHECKING:
    from headrace.flow.sql.catalog import Catalog
    from headrace.flow.sql.engine import Engine, QueryResult
    from headrace.flow.sql.error import SqlError
    from headrace.flow.sql.parser import parse
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "Catalog": "headrace.flow.sql.catalog",
            "Engine": "headrace.flow.sql.engine",
            "QueryResult": "headrace.flow.sql.engine",
            "SqlError": "headrace.flow.sql.error",
            "parse": "headrace.flow.sql.parser",
        },
    )
