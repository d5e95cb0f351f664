"""Parsing a script: our own statements; Spark's queries are left as text.

    CREATE [OR REPLACE] STREAM|TABLE [IF NOT EXISTS] name (columns) [WITH (topic = '...', ...)]
    CREATE STREAM name [WITH (...)] AS SELECT ... [EMIT CHANGES|FINAL]
    INSERT INTO name SELECT ... | VALUES ... [EMIT CHANGES|FINAL]
    SELECT ... [EMIT [TABLE|CHANGES|FINAL] [LIMIT n]]
    SHOW STREAMS|TABLES|QUERIES   DESCRIBE name   DROP STREAM [IF EXISTS] name   EXPLAIN SELECT ...

A column is `name TYPE`, or `name TYPE METADATA FROM 'timestamp'` for a column of the record: key,
topic, partition, offset or timestamp.
"""

from collections.abc import Iterator

from headrace.flow.sql.error import SqlError
from headrace.flow.sql.statement import (
    ColumnDeclaration,
    CreateStatement,
    DescribeStatement,
    DropStatement,
    EmitMode,
    ExplainStatement,
    InsertStatement,
    Option,
    SelectStatement,
    ShowStatement,
    SparkQuery,
    Statement,
)
from headrace.flow.sql.token import Token, tokens_of

_BEGINNINGS = "CREATE, INSERT, SELECT, SHOW, DESCRIBE, DROP or EXPLAIN"
_MAX_LIMIT = 1_000_000


def parse(script: str) -> Iterator[Statement]:
    """Yield the statements of a script one by one, so that those before a mistake can run.

    Raises:
        SqlError: showing the mistake.
    """
    tokens: list[Token] = []
    for token in tokens_of(script):
        if token.text == ";":
            if tokens:
                yield _StatementParser(script, tokens, token.start).statement()
            tokens = []
        else:
            tokens.append(token)
    if tokens:
        yield _StatementParser(script, tokens, len(script)).statement()


def is_complete(script: str) -> bool:
    """Return whether the text at a prompt is complete: it ends with a semicolon, or is empty."""
    try:
        tokens = list(tokens_of(script))
    except SqlError:
        return False
    return not tokens or tokens[-1].text == ";"


class _StatementParser:
    """Parses one statement. `end` is where it ends in the script."""

    def __init__(self, script: str, tokens: list[Token], end: int) -> None:
        self._script, self._tokens, self._end = script, tokens, end
        self._at = 0

    def statement(self) -> Statement:
        first = self._next()
        if first.is_word("CREATE"):
            return self._create(first.start)
        if first.is_word("INSERT"):
            self._expect("INTO")
            name = self._name("the stream to write to")
            query, emit, _ = self._query(EmitMode.CHANGES)
            return InsertStatement(first.start, name, query, emit)
        if first.is_word("SELECT", "WITH", "FROM", "VALUES") or first.text == "(":
            self._at -= 1
            query, emit, limit = self._query(EmitMode.NOW)
            return SelectStatement(first.start, query, emit, limit)
        if first.is_word("EXPLAIN"):
            query, _, _ = self._query(EmitMode.CHANGES)
            return ExplainStatement(first.start, query)
        statement = self._about_streams(first)
        self._done()
        return statement

    def _about_streams(self, first: Token) -> Statement:
        if first.is_word("SHOW", "LIST"):
            what = self._word("STREAMS", "TABLES", "QUERIES")
            return ShowStatement(first.start, what)
        if first.is_word("DESCRIBE", "DESC"):
            self._skip("STREAM", "TABLE")
            return DescribeStatement(first.start, self._name("a stream"))
        if first.is_word("DROP"):
            self._word("STREAM", "TABLE")
            if_exists = self._skip("IF")
            if if_exists:
                self._expect("EXISTS")
            return DropStatement(first.start, self._name("the stream to drop"), if_exists)
        raise self._wrong(f"a statement begins with {_BEGINNINGS}", first)

    def _create(self, start: int) -> CreateStatement:
        replace = self._skip("OR")
        if replace:
            self._expect("REPLACE")
        table = self._word("STREAM", "TABLE") == "TABLE"
        if_not_exists = self._skip("IF")
        if if_not_exists:
            self._expect("NOT")
            self._expect("EXISTS")
        name = self._name("the name of the stream")
        columns = self._columns() if self._peek_is("(") else ()
        options = self._options() if self._skip("WITH") else {}
        query, emit = None, EmitMode.CHANGES
        if self._skip("AS"):
            query, emit, _ = self._query(EmitMode.CHANGES)
        elif not columns and not any(each.startswith("schema.registry") for each in options):
            raise self._wrong("columns in brackets, or AS SELECT, must follow", self._peek())
        self._done()
        if query is not None and (columns or table):
            why = "AS SELECT makes a stream, whose columns are those of the query"
            raise SqlError(why, self._script, query.start)
        return CreateStatement(
            start, name, table, columns, options, query, emit, replace, if_not_exists
        )

    def _columns(self) -> tuple[ColumnDeclaration, ...]:
        self._expect("(")
        columns = []
        while True:
            first = self._peek()
            name = self._name("the name of a column")
            ddl = self._type()
            metadata = None
            if self._skip("METADATA"):
                self._expect("FROM")
                metadata = self._string("a column of the record, such as 'timestamp'")
            start = self._end if first is None else first.start
            columns.append(ColumnDeclaration(name, ddl, metadata, start))
            if self._next_mark(",", ")") == ")":
                return tuple(columns)

    def _type(self) -> str:
        """Return the text up to the comma, bracket or word behind a column's type."""
        depth = 0
        first = self._peek()
        begin = self._at
        while (token := self._peek()) is not None:
            if depth == 0 and (token.text in (",", ")") or token.is_word("METADATA")):
                break
            depth += {"<": 1, "(": 1, ">": -1, ")": -1}.get(token.text, 0)
            self._at += 1
        if begin == self._at or first is None:
            raise self._wrong("a type must follow, such as STRING or BIGINT", first)
        return self._script[first.start : self._tokens[self._at - 1].end]

    def _options(self) -> dict[str, Option]:
        self._expect("(")
        options: dict[str, Option] = {}
        while True:
            token = self._peek()
            parts = [self._name("an option, such as topic")]
            while self._peek_is("."):
                self._at += 1
                parts.append(self._name("the rest of the option's name"))
            name = ".".join(parts)
            if name.lower() in options:
                raise self._wrong(f"{name} is there twice", token)
            self._expect("=")
            value = self._next()
            if value.kind not in ("string", "number", "word"):
                raise self._wrong("a value in quotes must follow", value)
            options[name.lower()] = Option(value.value, value.start)
            if self._next_mark(",", ")") == ")":
                return options

    def _query(self, emit: EmitMode) -> tuple[SparkQuery, EmitMode, int | None]:
        """Return the rest of the statement: Spark's query up to the last EMIT, which is ours."""
        first = self._peek()
        if first is None:
            raise self._wrong("a query must follow, such as SELECT * FROM clicks", None)
        end, limit = self._end, None
        for at in range(len(self._tokens) - 1, self._at, -1):
            if self._tokens[at].is_word("EMIT"):
                end, self._at = self._tokens[at].start, at + 1
                emit, limit = self._emit()
                break
        self._at = len(self._tokens)
        return SparkQuery(self._script[first.start : end].rstrip(), first.start), emit, limit

    def _emit(self) -> tuple[EmitMode, int | None]:
        emit = EmitMode.TABLE
        for each in (EmitMode.TABLE, EmitMode.CHANGES, EmitMode.FINAL):
            if self._skip(each.name):
                emit = each
        limit = None
        if self._skip("LIMIT"):
            token = self._next()
            if token.kind != "number" or not token.text.isdigit():
                raise self._wrong("a number must follow LIMIT", token)
            limit = int(token.text)
            if not 0 < limit <= _MAX_LIMIT:
                raise self._wrong(f"LIMIT is from 1 to {_MAX_LIMIT:,}", token)
        self._done()
        return emit, limit

    def _peek(self) -> Token | None:
        return self._tokens[self._at] if self._at < len(self._tokens) else None

    def _peek_is(self, mark: str) -> bool:
        token = self._peek()
        return token is not None and token.text == mark

    def _next(self) -> Token:
        token = self._peek()
        if token is None:
            raise self._wrong("the statement ends too early", None)
        self._at += 1
        return token

    def _skip(self, *words: str) -> bool:
        token = self._peek()
        if token is not None and token.is_word(*words):
            self._at += 1
            return True
        return False

    def _word(self, *words: str) -> str:
        token = self._next()
        if not token.is_word(*words):
            raise self._wrong(f"{' or '.join(words)} must stand here", token)
        return token.text.upper()

    def _expect(self, text: str) -> None:
        token = self._next()
        if token.text.upper() != text:
            raise self._wrong(f"{text} must stand here", token)

    def _next_mark(self, *marks: str) -> str:
        token = self._next()
        if token.text not in marks:
            raise self._wrong(f"{' or '.join(marks)} must stand here", token)
        return token.text

    def _name(self, what: str) -> str:
        token = self._next()
        if token.kind not in ("word", "name"):
            raise self._wrong(f"{what} must stand here", token)
        return token.value

    def _string(self, what: str) -> str:
        token = self._next()
        if token.kind != "string":
            raise self._wrong(f"{what} must stand here", token)
        return token.value

    def _done(self) -> None:
        token = self._peek()
        if token is not None:
            raise self._wrong("the statement should end here", token)

    def _wrong(self, why: str, token: Token | None) -> SqlError:
        return SqlError(why, self._script, self._end if token is None else token.start)
