from headrace.cluster.acl import Acl, AclFilter
from headrace.cluster.broker import BrokerRecord


def acl(name: str, pattern_type: str) -> Acl:
    return Acl("topic", name, pattern_type, "User:anna", "*", "read", "allow")


def test_a_filter_names_the_kind_of_pattern() -> None:
    literal, prefixed = acl("orders", "literal"), acl("orders", "prefixed")
    only = AclFilter(pattern_type="literal")

    assert only.accepts(literal)
    assert not only.accepts(prefixed)
    assert AclFilter().accepts(prefixed)


def test_a_broker_of_an_earlier_release_has_no_epoch() -> None:
    assert BrokerRecord.from_json(("7",), {"rack": None, "endpoints": []}).epoch == -1
