"""The random tests have teeth: bugs planted in the passes are found within a few graphs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from dfc.driver import pipeline
from dfc.ir.graph import Node, Value
from dfc.ir.rewrite import RewriteSite
from dfc.ir.verify import VerifyError
from dfc.ops.attributes import AssignAttributes, AxesAttributes, PermutationAttributes, SliceAttributes
from dfc.ops.effects.effects import effect
from dfc.ops.record import Effect
from dfc.transforms.autodiff import reverse, reverse_loops
from dfc.transforms.autodiff.autodiff import autodiff
from dfc.transforms.scalar import cse, dce, fold, prune, rules, simplify
from dfc.transforms.scalar import dead_results as thin
from dfc.transforms.scalar.rules import Match, Rule
from tests.dfc.transforms.autodiff.test_autodiff_random import differences, is_finite, targets_of, with_gradients
from tests.support.agreeing import assert_same, reference, verified
from tests.support.random_graphs import random_case

Patch = pytest.MonkeyPatch
MOST = 500
SEEDS = (*range(5), 15, 64, 75, *range(MOST))
"""First those of graphs that find some of these bugs."""


def found_by_random_graphs() -> bool:
    for seed in SEEDS:
        case = random_case(seed, size=14)
        before = reference(case)
        try:
            after = case.graph
            for phase in pipeline.PHASES:
                after = verified(phase.run(after), phase.name)
            assert_same(before, reference(case, after))
        except (AssertionError, VerifyError, KeyError, ValueError, RecursionError):
            return True
    return False


def found_by_differences() -> bool:
    for seed in SEEDS:
        case = random_case(seed, smooth=True, size=8)
        if not is_finite(case):
            continue
        try:
            outcome = reference(case, verified(autodiff(with_gradients(case)), "autodiff"))
        except (AssertionError, VerifyError):
            return True
        targets = targets_of(case.graph.entries["e"])
        for target, gradient in zip(targets, outcome.results[-len(targets) :], strict=True):
            ones = gradient * 0 + 1
            if float(gradient.sum()) != pytest.approx(differences(case, target.name, ones), rel=1e-4, abs=1e-6):
                return True
    return False


def replace_rule(patch: Patch, identity: str, rewrite: Callable[[Match], Value | None]) -> None:
    changed = tuple(Rule(r.identity, r.formula, rewrite) if r.identity == identity else r for r in rules.RULES)
    patch.setattr(simplify, "RULES", changed)
    simplify._rules_of.cache_clear()


def subtraction_adds(patch: Patch) -> None:
    replace_rule(patch, "op:sub", lambda m: m.make("add", m.x, m.y))


def permutations_in_the_wrong_order(patch: Patch) -> None:
    def rewrite(m: Match) -> Value | None:
        inner = rules.producer(m.x, "transpose")
        if inner is None:
            return None
        p, q = inner.attributes, m.node.attributes
        assert isinstance(p, PermutationAttributes)
        assert isinstance(q, PermutationAttributes)
        order = PermutationAttributes(tuple(q.permutation[axis] for axis in p.permutation))
        return m.make("transpose", inner.operands[0], attributes=order)

    replace_rule(patch, "transpose of transpose", rewrite)


def a_slice_forgets_the_one_below(patch: Patch) -> None:
    def rewrite(m: Match) -> Value | None:
        inner = rules.producer(m.x, "slice")
        assert isinstance(m.node.attributes, SliceAttributes)
        return None if inner is None else m.make("slice", inner.operands[0], attributes=m.node.attributes)

    replace_rule(patch, "slice of slice", rewrite)


def reversals_add_up(patch: Patch) -> None:
    def rewrite(m: Match) -> Value | None:
        inner = rules.producer(m.x, m.node.op)
        if inner is None or not isinstance(m.node.attributes, AxesAttributes):
            return None
        return m.make("reverse", inner.operands[0], attributes=m.node.attributes)

    replace_rule(patch, "involution", rewrite)


def attributes_do_not_matter(patch: Patch) -> None:
    real = cse._key

    def key(node: Node, operands: Sequence[Value]) -> Any:
        op, numbers, _, types = real(node, operands)
        return op, numbers, None, types

    patch.setattr(cse, "_key", key)


def regions_leak(patch: Patch) -> None:
    patch.setattr(cse._Share, "leave", lambda self, block: self._added.pop())


def every_op_commutes(patch: Patch) -> None:
    def key(node: Node, operands: Sequence[Value]) -> Any:
        return node.op, tuple(sorted(map(id, operands))), node.attributes, tuple(v.type for v in node.results)

    patch.setattr(cse, "_key", key)


def reads_are_shared_across_writes(patch: Patch) -> None:
    real = simplify._forward

    def forward(site: RewriteSite) -> Sequence[Value] | None:
        before = site.operands[0].node
        if before is not None and isinstance(before.attributes, AssignAttributes) and not before.attributes.index:
            value = before.operands[0]
            return (value, site.operands[0]) if value.type == site.node.results[0].type else None
        return real(site)

    patch.setattr(simplify, "_forward", forward)


def writes_are_pruned(patch: Patch) -> None:
    patch.setattr(prune, "_is_read", lambda node: effect(node) in (Effect.READ, Effect.WRITE) and not node.regions)


def the_other_side_is_taken(patch: Patch) -> None:
    def fold_if(site: RewriteSite) -> Sequence[Value] | None:
        condition = fold.constant_of(site.operands[0])
        if condition is None:
            return None
        return fold.Cloner().call(site.regions[1 if bool(condition) else 0], site.operands[1:], site.output)

    patch.setattr(fold, "_fold_if", fold_if)


def conditions_need_nothing(patch: Patch) -> None:
    patch.setattr(dce, "controls", lambda parts: [])


def effects_in_a_branch_are_idle(patch: Patch) -> None:
    patch.setattr(thin, "_is_idle", lambda flow: flow.result.is_token)


@pytest.mark.parametrize(
    "plant",
    [
        subtraction_adds,
        permutations_in_the_wrong_order,
        a_slice_forgets_the_one_below,
        reversals_add_up,
        attributes_do_not_matter,
        regions_leak,
        every_op_commutes,
        reads_are_shared_across_writes,
        writes_are_pruned,
        the_other_side_is_taken,
        conditions_need_nothing,
        effects_in_a_branch_are_idle,
    ],
    ids=lambda plant: plant.__name__,
)
def test_a_bug_in_a_pass_is_found(plant: Callable[[Patch], None], monkeypatch: Patch) -> None:
    simplify._rules_of.cache_clear()
    with monkeypatch.context() as patch:
        plant(patch)
        found = found_by_random_graphs()
    simplify._rules_of.cache_clear()
    assert found


def only_the_last_user_counts(patch: Patch) -> None:
    def summed(builder: Any, total: Value | None, cotangent: Value, value: Value) -> Value:
        del total
        return builder.reshape(cotangent, value.tensor.shape)

    patch.setattr(reverse, "summed", summed)


def branches_are_swapped(patch: Patch) -> None:
    real = reverse.Reverse._branches

    def branches(self: Any, node: Node, *others: Any) -> None:
        swapped = Node(node.op, node.operands, [v.type for v in node.results], regions=node.regions[::-1], name="s")
        swapped.results = node.results
        real(self, swapped, *others)

    patch.setattr(reverse.Reverse, "_branches", branches)


def branches_give_nothing(patch: Patch) -> None:
    patch.setattr(reverse.Reverse, "required_of", lambda self, node: [])


def rounds_start_from_nothing(patch: Patch) -> None:
    patch.setattr(reverse_loops._Back, "_enter", lambda self, builder, place, cotangents: None)


@pytest.mark.parametrize(
    "plant",
    [only_the_last_user_counts, branches_are_swapped, branches_give_nothing, rounds_start_from_nothing],
    ids=lambda plant: plant.__name__,
)
def test_a_bug_in_autodiff_is_found(plant: Callable[[Patch], None], monkeypatch: Patch) -> None:
    with monkeypatch.context() as patch:
        plant(patch)
        found = found_by_differences()
    assert found
