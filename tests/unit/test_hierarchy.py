"""The hierarchy: what links detectors, and what it refuses."""

from typing import Any

import pytest

from slackline import (
    Detector,
    Emit,
    Event,
    Hierarchy,
    HierarchyError,
    KSlack,
    Listen,
    Punctuated,
    Unordered,
)


class Relay(Detector):
    def __init__(self, listens: Any, publishes: Any = ()) -> None:
        self.listens, self.publishes = listens, publishes

    def on_event(self, event: Event, emit: Emit) -> None: ...


def chain() -> Hierarchy:
    """Sources A and B; low: A -> L; mid: L, B -> M; top: M, L -> T; side: B -> S."""
    return (
        Hierarchy("chain", clock=("A",))
        .add("top", Relay(("M", "L"), ("T",)))
        .add("mid", Relay(("L", "B"), ("M",)))
        .add("side", Relay(("B",), ("S",)))
        .add("low", Relay(("A",), ("L",)))
    )


def picture(hierarchy: Hierarchy) -> tuple[Any, ...]:
    """Everything a user can see of a hierarchy."""
    return (
        hierarchy.name, hierarchy.clock, hierarchy.unit, hierarchy.sources, hierarchy.levels,
        hierarchy.types, [(n.name, n.detector, n.ordering, n.unordered) for n in hierarchy],
    )  # fmt: skip


# ---- what it knows ---------------------------------------------------------------------------


def test_levels_put_publishers_below_their_subscribers_whatever_the_order_of_adding() -> None:
    assert chain().levels == [("side", "low"), ("mid",), ("top",)]


def test_iterating_gives_publishers_before_their_subscribers() -> None:
    names = [node.name for node in chain()]
    assert sorted(names) == ["low", "mid", "side", "top"]
    assert names.index("low") < names.index("mid") < names.index("top")


def test_types_name_the_detectors_that_publish_them_and_none_for_a_source() -> None:
    assert chain().types == {
        "A": (), "B": (), "L": ("low",), "M": ("mid",), "S": ("side",), "T": ("top",),
    }  # fmt: skip


def test_several_detectors_may_publish_one_type() -> None:
    hierarchy = chain().add("low2", Relay(("B",), ("L",)))
    assert hierarchy.types["L"] == ("low", "low2")
    assert hierarchy.levels[0] == ("side", "low", "low2")


def test_source_types_are_those_nobody_publishes() -> None:
    assert sorted(chain().source_types) == ["A", "B"]


def test_declared_sources_that_nobody_hears_are_source_types_too() -> None:
    hierarchy = Hierarchy("h", sources=("A", "Z")).add("d", Relay(("A",)))
    assert sorted(hierarchy.source_types) == ["A", "Z"]


def test_the_clock_types_are_those_declared_or_else_every_source_type() -> None:
    assert chain().clock_types == ("A",)
    assert Hierarchy("h").add("d", Relay(("B", "A"))).clock_types == ("B", "A")


def test_a_clock_type_may_be_one_that_nobody_listens_to() -> None:
    hierarchy = Hierarchy("h", clock=("C",)).add("d", Relay(("A",)))
    hierarchy.check()
    assert hierarchy.types == {"C": (), "A": ()}


@pytest.mark.parametrize(
    ("unit", "second"), [("ps", 10**12), ("ns", 10**9), ("us", 10**6), ("ms", 1000), ("s", 1)]
)
def test_a_second_has_as_many_units_as_it_should(unit: str, second: int) -> None:
    assert Hierarchy("h", unit=unit).second == second


def test_a_detector_is_found_by_its_name() -> None:
    hierarchy = chain()
    assert ("low" in hierarchy, "none" in hierarchy, len(hierarchy)) == (True, False, 4)
    assert hierarchy["mid"].listens == ("L", "B")
    assert hierarchy["mid"].publishes == ("M",)
    with pytest.raises(HierarchyError, match=r"no detector 'none' .*'low', 'mid', 'side', 'top'"):
        hierarchy["none"]


def test_the_text_of_a_hierarchy_says_how_large_it_is() -> None:
    assert repr(chain()) == "Hierarchy('chain', 4 detectors on 3 levels)"


def test_types_named_twice_count_once() -> None:
    assert Hierarchy("h").add("d", Relay(["A", "A", "B"], ["T", "T"]))["d"].listens == ("A", "B")


def test_the_default_ordering_is_k_slack() -> None:
    assert Hierarchy("h").add("d", Relay(("A",)))["d"].ordering == KSlack()


# ---- unordered types -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("listens", "unordered", "expected"),
    [
        (("A", "B"), (), set()),
        (("A", "B"), ("B",), {"B"}),
        (("A", "B"), True, {"A", "B"}),
        (("A", "B"), False, set()),
        ((Listen("A", unordered=True), "B"), (), {"A"}),
        ((Listen("A", unordered=True), "B"), ["B"], {"A", "B"}),
        ((Listen("A"), "B"), (), set()),
    ],
)
def test_types_are_unordered_by_the_detector_or_by_add(
    listens: Any, unordered: Any, expected: set[str]
) -> None:
    node = Hierarchy("h").add("d", Relay(listens), unordered=unordered)["d"]
    assert node.unordered == expected
    assert [type(name) for name in node.listens] == [str, str]


def test_a_type_cannot_be_unordered_that_is_not_listened_to() -> None:
    with pytest.raises(HierarchyError, match=r"'d' does not listen to \['Z'\]"):
        Hierarchy("h").add("d", Relay(("A",)), unordered=("Z",))


def test_a_str_instead_of_a_tuple_of_unordered_types_is_refused_by_name() -> None:
    with pytest.raises(HierarchyError, match=r"\('AB',\)"):
        Hierarchy("h").add("d", Relay(("AB",)), unordered="AB")


# ---- what is refused -------------------------------------------------------------------------


REFUSED: dict[str, tuple[Any, ...]] = {
    "the same name": ("low", Relay(("A",)), "'low' is there already"),
    "an empty name": ("", Relay(("A",)), "non-empty str, got ''"),
    "a name that is no str": (7, Relay(("A",)), "non-empty str, got 7"),
    "a class": ("d", Relay, r"'d': pass an instance, Relay\(\), not the class"),
    "something else": ("d", "Relay", "'d': expected a Detector, got str"),
    "no types": ("d", Relay(()), "'d' listens to nothing"),
    "a str for listens": ("d", Relay("AB"), r"'d': listens must be a tuple .* write \('AB',\)"),
    "a str for publishes": ("d", Relay(("A",), "XY"), r"'d': publishes .* write \('XY',\)"),
    "an empty type": ("d", Relay(("A", "")), "'d': listens must hold non-empty type names, got ''"),
    "a type that is no str": ("d", Relay(("A",), (3,)), "'d': publishes must hold .* got 3"),
    "a cycle": ("d", Relay(("T",), ("B",)), "'d' closes a cycle: d -> mid -> top -> d"),
    "a cycle of one": ("d", Relay(("X", "A"), ("X",)), "'d' closes a cycle: d -> d"),
}


@pytest.mark.parametrize(("name", "detector", "says"), REFUSED.values(), ids=REFUSED)
def test_a_refused_detector_is_named_and_leaves_the_hierarchy_as_it_was(
    name: Any, detector: Any, says: str
) -> None:
    hierarchy = chain()
    before = picture(hierarchy)
    with pytest.raises(HierarchyError, match=says):
        hierarchy.add(name, detector)
    assert picture(hierarchy) == before


@pytest.mark.parametrize("ordering", ["fast", 5, KSlack, {"d": KSlack()}])
def test_an_ordering_that_is_none_is_refused_and_leaves_the_hierarchy_as_it_was(
    ordering: Any,
) -> None:
    hierarchy = chain()
    with pytest.raises(HierarchyError, match="'d': ordering must be KSlack"):
        hierarchy.add("d", Relay(("A",)), ordering)
    assert "d" not in hierarchy


@pytest.mark.parametrize("listens", [None, 5])
def test_listens_that_is_no_list_at_all_is_refused(listens: Any) -> None:
    with pytest.raises(HierarchyError, match="'d': listens"):
        Hierarchy("h").add("d", Relay(listens))


def test_an_unknown_unit_is_refused_with_the_known_ones() -> None:
    with pytest.raises(
        HierarchyError, match="'h': unknown unit 'min'; use one of ps, ns, us, ms, s"
    ):
        Hierarchy("h", unit="min")


@pytest.mark.parametrize("what", ["clock", "sources"])
def test_a_str_instead_of_a_tuple_of_types_is_refused(what: str) -> None:
    with pytest.raises(HierarchyError, match=rf"'h': {what} must be a tuple .* write \('AB',\)"):
        Hierarchy("h", **{what: "AB"})  # type: ignore[arg-type]


def test_publishing_a_declared_source_type_is_refused() -> None:
    hierarchy = Hierarchy("h", sources=("A", "B"))
    with pytest.raises(HierarchyError, match="'d' publishes 'B', which is a source type too"):
        hierarchy.add("d", Relay(("A",), ("B",)))
    assert len(hierarchy) == 0


def test_a_hierarchy_without_detectors_cannot_run() -> None:
    with pytest.raises(HierarchyError, match="'h' has no detectors"):
        Hierarchy("h").check()


def test_with_declared_sources_a_type_that_nobody_publishes_is_an_error() -> None:
    hierarchy = Hierarchy("h", sources=("A",)).add("d", Relay(("A", "a"), ("T",)))
    with pytest.raises(
        HierarchyError, match=r"'d' listens to 'a', .* known types are \['A', 'T'\]"
    ):
        hierarchy.check()
    hierarchy.add("late", Relay(("A",), ("a",))).check()


def test_without_declared_sources_every_type_may_come_from_outside() -> None:
    Hierarchy("h").add("d", Relay(("whatever",))).check()


def test_with_declared_sources_an_unknown_clock_type_is_an_error() -> None:
    hierarchy = Hierarchy("h", clock=("C",), sources=("A",)).add("d", Relay(("A",)))
    with pytest.raises(HierarchyError, match="clock type 'C' is published by nobody"):
        hierarchy.check()


def test_a_clock_type_that_a_detector_publishes_is_an_error() -> None:
    hierarchy = Hierarchy("h", clock=("T",)).add("d", Relay(("A",), ("T",)))
    with pytest.raises(HierarchyError, match="clock type 'T' is published by detector 'd'"):
        hierarchy.check()


def test_a_dense_hierarchy_can_be_added_from_the_top() -> None:
    hierarchy, width = Hierarchy("h"), 3
    for level in reversed(range(25)):
        below = tuple(f"t{level}{i}" for i in range(width))
        for i in range(width):
            hierarchy.add(f"d{level}{i}", Relay(below, (f"t{level + 1}{i}",)))
    assert len(hierarchy.levels) == 25


# ---- orderings of a run ----------------------------------------------------------------------


def test_one_ordering_replaces_that_of_every_detector() -> None:
    assert set(chain().orderings(Punctuated()).values()) == {Punctuated()}


def test_a_mapping_replaces_the_orderings_of_those_it_names() -> None:
    hierarchy = chain().add("own", Relay(("A",)), Unordered())
    orderings = hierarchy.orderings({"low": Punctuated()})
    assert orderings["low"] == Punctuated()
    assert (orderings["mid"], orderings["own"]) == (KSlack(), Unordered())


def test_without_replacement_each_detector_keeps_its_ordering() -> None:
    hierarchy = Hierarchy("h").add("d", Relay(("A",)), KSlack(k=7))
    assert hierarchy.orderings(None) == {"d": KSlack(k=7)}


def test_an_ordering_for_a_detector_that_is_not_there_is_an_error() -> None:
    with pytest.raises(HierarchyError, match="no detector 'lwo'"):
        chain().orderings({"lwo": KSlack()})


def test_something_that_is_no_ordering_is_an_error() -> None:
    with pytest.raises(HierarchyError, match="ordering must be KSlack"):
        chain().orderings("fast")  # type: ignore[arg-type]


def test_something_that_is_no_ordering_in_a_mapping_is_an_error() -> None:
    with pytest.raises(HierarchyError, match="ordering must be KSlack"):
        chain().orderings({"low": "fast"})  # type: ignore[dict-item]
