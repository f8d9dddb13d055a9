"""What callers pass where types are not checked before."""

import pytest

from dfc_runtime.errors import FeedError
from dfc_runtime.kinds import names_of


@pytest.mark.parametrize("value", [[], ["a"], ("a", "b"), {"a"}])
def test_lists_of_names_are_taken(value: object) -> None:
    assert set(names_of(value, "names")) == set(value)  # type: ignore[call-overload]


@pytest.mark.parametrize(
    ("value", "kind"),
    [("a", "type str"), (None, "not None"), (3, "type int"), (["a", 3], "type int"), ({}, "type dict")],
)
def test_what_is_no_list_of_names_is_refused(value: object, kind: str) -> None:
    with pytest.raises(FeedError, match=f"entries is a list of names.* {kind}"):
        names_of(value, "entries is a list of names")
