"""Whatever is written in whatever order: indexes agree, and a compacted topic reads the same."""

from hypothesis import given
from hypothesis import strategies as st

from headrace.gateway.registry.state.record import (
    Record,
    config_record,
    delete_subject_record,
    mode_record,
    schema_record,
    schema_tombstone,
    write_json,
    write_key,
)
from headrace.gateway.registry.state.registry_state import LogRecord, RegistryState
from headrace.gateway.registry.state.stored_schema import StoredSchema
from headrace.gateway.registry.state.subject_name import ANY_CONTEXT, SubjectName
from headrace.schema.schema import Reference, SchemaType

SUBJECTS = st.sampled_from(["a", "b", ":.eu:a", ":.eu:c"])
VERSIONS = st.integers(1, 4)


@st.composite
def schemas(draw: st.DrawFn) -> Record:
    schema_id = draw(st.integers(1, 5))
    references = draw(st.lists(st.builds(Reference, st.just("r"), SUBJECTS, VERSIONS), max_size=1))
    return schema_record(
        StoredSchema(
            draw(SUBJECTS),
            draw(VERSIONS),
            schema_id,
            SchemaType.AVRO,
            f"text {schema_id}",
            tuple(references),
            deleted=draw(st.booleans()),
        )
    )


LEVELS = st.sampled_from(["NONE", "FULL"]).map(lambda level: {"compatibilityLevel": level})
RECORDS = st.one_of(
    schemas(),
    st.builds(schema_tombstone, SUBJECTS, VERSIONS),
    st.builds(mode_record, SUBJECTS | st.none(), st.sampled_from(["READONLY", None])),
    st.builds(config_record, SUBJECTS | st.none(), LEVELS | st.none()),
)
DELETIONS = st.builds(delete_subject_record, SUBJECTS, VERSIONS)


def applied(records: list[Record]) -> RegistryState:
    state = RegistryState()
    for offset, each in enumerate(records):
        value = None if each.value is None else write_json(each.value)
        state.apply(LogRecord(offset, write_key(each.key), value))
    return state


@given(st.lists(RECORDS | DELETIONS, max_size=25))
def test_all_indexes_agree(records: list[Record]) -> None:
    state = applied(records)
    for subject in state.subjects(ANY_CONTEXT, deleted=True):
        context = SubjectName.of(subject).context
        for each in state.versions(subject, deleted=True):
            assert each in list(state.by_id(each.id, context))
            assert state.ids_of_guid(each.guid)[context] == each.id
            assert each.id <= state.max_id(context)
            for reference in each.references:
                target = SubjectName.of(subject).sibling(reference.subject).text
                referrers = state.referrers(target, reference.version)
                assert (each in referrers) is not each.deleted


@given(st.lists(RECORDS, max_size=25))
def test_a_compacted_topic_reads_the_same(records: list[Record]) -> None:
    last = {write_key(each.key): at for at, each in enumerate(records)}
    kept = [each for at, each in enumerate(records) if last[write_key(each.key)] == at]
    whole, compacted = applied(records), applied(kept)
    for subject in whole.subjects(ANY_CONTEXT, deleted=True):
        assert whole.versions(subject, deleted=True) == compacted.versions(subject, deleted=True)
    assert whole.configs == compacted.configs
    assert whole.modes == compacted.modes
