"""The authorizer against the rules read one by one, over random entries."""

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.broker.auth.authorizer import Authorizer
from headrace.broker.auth.resource import Operation, ResourceType
from headrace.cluster.acl import Acl, applies

NAMES = st.sampled_from(["*", "a", "ab", "abc", "b", "abd"])
USERS = st.sampled_from(["User:*", "User:x", "User:y"])
HOSTS = st.sampled_from(["*", "h1", "h2"])
OPERATIONS = st.sampled_from(list(Operation))

ACLS = st.builds(
    Acl,
    resource_type=st.sampled_from(["topic", "group"]),
    resource_name=NAMES,
    pattern_type=st.sampled_from(["literal", "prefixed"]),
    principal=USERS,
    host=HOSTS,
    operation=OPERATIONS.map(lambda operation: operation.name.lower()),
    permission=st.sampled_from(["allow", "deny"]),
)
IMPLIES = {
    "describe": {"read", "write", "delete", "alter"},
    "describe_configs": {"alter_configs"},
}


def by_the_rules(acls: set[Acl], user: str, host: str, operation: str, name: str) -> bool:
    about = [acl for acl in acls if acl.resource_type == "topic" and applies(acl, name)]
    mine = [acl for acl in about if acl.principal in (user, "User:*") and acl.host in (host, "*")]
    if any(acl.permission == "deny" and acl.operation in (operation, "all") for acl in mine):
        return False
    allowing = {operation, "all"} | IMPLIES.get(operation, set())
    return any(acl.permission == "allow" and acl.operation in allowing for acl in mine)


@settings(deadline=None, max_examples=300)
@given(
    acls=st.sets(ACLS, max_size=12),
    user=st.sampled_from(["User:x", "User:z"]),
    host=st.sampled_from(["h1", "h3"]),
    operation=OPERATIONS,
    name=st.sampled_from(["a", "abc", "abcd", "z"]),
)
def test_decides_as_the_rules_say(
    acls: set[Acl], user: str, host: str, operation: Operation, name: str
) -> None:
    made = Authorizer()
    made.set_acls(acls)

    decided = made.allows(user, host, operation, ResourceType.TOPIC, name)

    assert decided == by_the_rules(acls, user, host, operation.name.lower(), name)


@settings(deadline=None, max_examples=300)
@given(acls=st.sets(ACLS, max_size=8), operation=OPERATIONS)
def test_any_topic_is_allowed_when_one_is(acls: set[Acl], operation: Operation) -> None:
    made = Authorizer()
    made.set_acls(acls)
    tried = ["a", "ab", "abc", "abd", "b", "zz", *(acl.resource_name + "~" for acl in acls)]

    some = any(
        operation.name.lower() not in IMPLIES
        and made.allows("User:x", "h1", operation, ResourceType.TOPIC, name)
        for name in tried
    )

    if some:
        assert made.allows_any("User:x", "h1", operation, ResourceType.TOPIC)
