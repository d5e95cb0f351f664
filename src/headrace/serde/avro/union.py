"""What a union becomes in Arrow."""

from dataclasses import dataclass

from headrace.model.error import InvalidArgument
from headrace.schema.avro.tree import AvroType, Primitive, Union

_NUMBERS = ({"int", "long"}, {"float", "double"})


@dataclass(frozen=True, slots=True)
class UnionShape:
    """How the branches of a union are kept.

    Attributes:
        null_index: the branch that is null, or None.
        single: the only type that values have, of which the column is; the wider one of two
            numbers without logical types.
        members: otherwise the branches but null, each a field of a struct.
    """

    null_index: int | None
    single: AvroType | None
    members: tuple[AvroType, ...]

    @classmethod
    def of(cls, union: Union) -> "UnionShape":
        """Decide the shape of a union.

        Raises:
            InvalidArgument: it has no branch at all.
        """
        if not union.branches:
            raise InvalidArgument("the Avro schema has a union without branches: write one")
        kinds = [each.kind for each in union.branches]
        null_index = kinds.index("null") if "null" in kinds else None
        others = tuple(each for each in union.branches if each.kind != "null")
        if len(others) == 1:
            return cls(null_index, others[0], ())
        if len(others) == 2 and {each.kind for each in others} in _NUMBERS:
            wide = next(each for each in others if each.kind in ("long", "double"))
            return cls(null_index, Primitive(wide.kind), ())
        return cls(null_index, None, others)

    def member(self, branch: int) -> int | None:
        """Return which member a branch is; None for null and where there are no members."""
        if branch == self.null_index or not self.members:
            return None
        before = self.null_index is not None and self.null_index < branch
        return branch - 1 if before else branch
