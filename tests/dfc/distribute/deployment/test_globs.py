"""What globs match, and which of two is the more specific."""

from __future__ import annotations

import pytest

from dfc.distribute.deployment.globs import Glob

MATCHES = {
    "table": ["table"],
    "*": ["table", "bias"],
    "**": ["table", "net.conv1.kernel", "train/loss", "train/best:1"],
    "net.*": ["net.bias"],
    "net.**": ["net.bias", "net.conv1.kernel", "net"],
    "**.kernel": ["net.conv1.kernel"],
    "**/loss": ["train/loss", "loss", "train/inner/loss"],
    "train/*": ["train/loss", "train/best:1"],
    "train/**": ["train/loss", "train/inner/loss", "train/net.conv1"],
    "net.conv*.kernel": ["net.conv1.kernel", "net.conv.kernel"],
    "a/**/b": ["a/b", "a/x/b", "a/x/y/b"],
    "**/conv*/**": ["train/conv1/y", "conv2"],
}
REFUSES = {
    "table": ["tables", "train/table", "tab"],
    "*": ["net.bias", "train/loss"],
    "net.*": ["net.conv1.kernel", "net/bias", "network.bias"],
    "net.**": ["network.bias", "train/net.bias"],
    "**.kernel": ["kernels", "net/kernel", "net.kernel.x"],
    "**/loss": ["train/xloss", "train/loss/y"],
    "train/*": ["train/inner/loss", "train/net.conv1", "retrain/loss"],
    "train/**": ["trains", "retrain/loss"],
    "net.conv*.kernel": ["net.conv1.x.kernel", "net.kernel"],
    "a/**/b": ["a/xb", "ab"],
    "a.b": ["a/b", "axb"],
    "a+b": ["aab"],
}


@pytest.mark.parametrize(("glob", "name"), [(glob, name) for glob, names in MATCHES.items() for name in names])
def test_a_glob_matches(glob: str, name: str) -> None:
    assert Glob(glob).matches(name)


@pytest.mark.parametrize(("glob", "name"), [(glob, name) for glob, names in REFUSES.items() for name in names])
def test_a_glob_does_not_match(glob: str, name: str) -> None:
    assert not Glob(glob).matches(name)


ASCENDING = ["**", "*.w", "**/kernel", "kernel", "net.*.bias", "net.*.kernel", "net.conv*.kernel", "net.conv1.kernel"]


def test_more_literal_parts_then_characters_then_no_star_are_more_specific() -> None:
    ranks = [Glob(text).specificity for text in ASCENDING]
    assert ranks == sorted(set(ranks))


def test_a_part_with_a_star_is_no_literal_part() -> None:
    assert Glob("conv*.kernel").specificity[:2] == (1, 10)
    assert Glob("c*.bias.w").specificity > Glob("convolution*.w").specificity
