"""What the axes of a sum of products are, if it is a convolution: batch, places, windows, channels, groups.

Before: y[b, i, k] = sum over r, c of x[b, 2 * i + r - 1, c] * w[r, c, k], with zeros outside of x.
After: forward, image x, filter w, result y, step 2, one zero before.

The same sum is a convolution forward when the places are axes of the result, and one for the weights when they are
summed over. Zeros between the elements of the image, or a filter that is turned round, make it one for the image.

Assumes views over axes that are cut as far as needed. Guarantees that what is described is that sum.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace

from dfc.deferred.dataclasses import dataclass
from dfc.ir.dims import ONE, ZERO, Dim, dim, product
from dfc.kernels.access import strides
from dfc.kernels.matching.axes import Along, Space, Terms, View, merged
from dfc.kernels.matching.convolution import DATA, FORWARD, WEIGHTS, Convolution, Strided

MOST_SPATIAL_AXES = 3
IMAGE, FILTER, RESULT = range(3)


@dataclass(frozen=True, slots=True)
class Flat:
    """A read or a write that is linear in memory."""

    terms: Terms
    offset: Dim


@dataclass(frozen=True, slots=True)
class Spot:
    """One axis of an image along which windows move. `axis` and `window` are axes of the space, or none for one point;
    `extent` and `stride` are those of the image's memory."""

    axis: int | None
    window: int | None
    step: int
    dilation: int
    offset: Dim
    interior: int
    extent: Dim
    stride: Dim


@dataclass(slots=True)
class Roles:
    """Axes by what they are. `image`, `filter` and `result` are the terms of the three, once more with joint axes."""

    image: Terms
    filter: Terms
    result: Terms
    image_offset: Dim = ZERO
    spots: list[Spot] = field(default_factory=list[Spot])
    batch: list[int] = field(default_factory=list[int])
    taken: list[int] = field(default_factory=list[int])
    channels_out: list[int] = field(default_factory=list[int])
    groups: list[int] = field(default_factory=list[int])


def convolution(space: Space, image: View, plain: Flat, output: Flat) -> Convolution | None:
    """The sum over all axes that are not in `output` of image * plain, as a convolution."""
    convolutions = [
        one
        for one in (_as(FORWARD, space, image, plain, output), _as(WEIGHTS, space, image, output, plain))
        if one is not None
    ]
    return min(convolutions, key=_oddness, default=None)


def _oddness(one: Convolution) -> tuple[bool, int]:
    """Channels are plain numbers; the smaller extents are windows, the larger ones places."""
    return one.image.extents[1].constant is None, product(one.filter.extents[2:]).constant or 0


def _as(kind: str, space: Space, image: View, filter_: Flat, result: Flat) -> Convolution | None:
    roles = _roles(space, image, filter_.terms, result.terms)
    if roles is None or not _joined(space, roles):
        return None
    turned = [spot for spot in roles.spots if _is_turned(roles, spot)]
    plain = [s for s in roles.spots if s.window is not None and s not in turned]
    is_dilated = any(spot.interior > 1 for spot in roles.spots)
    if not turned and not is_dilated:
        return _described(kind, space, roles, filter_.offset, result.offset)
    if kind != FORWARD or plain or any(spot.step != 1 for spot in roles.spots):
        return None
    return _of_the_image(space, roles, filter_.offset, result.offset)


def _is_turned(roles: Roles, spot: Spot) -> bool:
    factor = roles.filter.get(spot.window, ZERO).constant if spot.window is not None else None
    return factor is not None and factor < 0


# --- who is who


def _roles(space: Space, image: View, filter_: Terms, result: Terms) -> Roles | None:
    """Sorts the axes; None if one of them is nowhere where it should be."""
    roles = Roles({}, dict(filter_), dict(result))
    for along, extent, stride in zip(image.index, image.shape, strides(image.shape), strict=True):
        terms = space.resolved(along.terms)
        sides = [[a for a in terms if a in one and a not in other] for one, other in _sides(filter_, result)]
        if along.masked or all(sides) or (any(sides) and (along.offset != ZERO or _jumps(terms))):
            spot = _spot(along, terms, sides, extent, stride)
            if spot is None:
                return None
            roles.spots.append(spot)
            continue
        roles.image_offset = roles.image_offset + along.offset * stride
        for axis, factor in terms.items():
            roles.image[axis] = roles.image.get(axis, ZERO) + factor * stride
    used = {axis for spot in roles.spots for axis in (spot.axis, spot.window)}
    if used & roles.image.keys():
        return None
    for axis in {**roles.image, **filter_, **result}:
        if axis in used:
            continue
        where = axis in roles.image, axis in filter_, axis in result
        kinds = {
            (True, False, True): roles.batch,
            (True, True, False): roles.taken,
            (False, True, True): roles.channels_out,
            (True, True, True): roles.groups,
        }
        if where not in kinds:
            return None
        kinds[where].append(axis)
    return roles


def _jumps(terms: Terms) -> bool:
    """Whether windows of one element leave out others."""
    factors = [factor.constant for factor in terms.values()]
    return len(factors) == 1 and factors[0] is not None and factors[0] != 1


def _sides(filter_: Terms, result: Terms) -> tuple[tuple[Terms, Terms], tuple[Terms, Terms]]:
    return (result, filter_), (filter_, result)


def _spot(along: Along, terms: Terms, sides: list[list[int]], extent: Dim, stride: Dim) -> Spot | None:
    """A window along one axis of the memory: at most one axis of places and one inside of windows."""
    if len(terms) != sum(map(len, sides)) or any(len(side) > 1 for side in sides):
        return None
    spatial, window = (side[0] if side else None for side in sides)
    factors = [1 if axis is None else terms[axis].constant for axis in (spatial, window)]
    step, dilation = factors
    if step is None or dilation is None or step < 1 or dilation < 1:
        return None
    return Spot(spatial, window, step, dilation, along.offset, along.interior, extent, stride)


def _joined(space: Space, roles: Roles) -> bool:
    """One axis of each kind; further axes of the batch become places with windows of one element."""
    everywhere = roles.image, roles.filter, roles.result
    roles.taken = merged(space, roles.taken, (roles.image, roles.filter))
    roles.channels_out = merged(space, roles.channels_out, (roles.filter, roles.result))
    roles.groups = merged(space, roles.groups, everywhere)
    roles.batch = merged(space, roles.batch, (roles.image, roles.result))
    if any(len(axes) > 1 for axes in (roles.taken, roles.channels_out, roles.groups)):
        return False
    if not roles.spots and len(roles.batch) < 2:
        return False  # a product of matrices
    for axis in roles.batch[1:]:
        roles.spots.append(Spot(axis, None, 1, 1, ZERO, 1, space.extents[axis], roles.image[axis]))
    roles.batch = roles.batch[:1]
    return len(roles.spots) <= MOST_SPATIAL_AXES


# --- tensors


def _described(kind: str, space: Space, roles: Roles, filter_offset: Dim, result_offset: Dim) -> Convolution | None:
    sizes = _Sizes(space, roles)
    filter_ = sizes.filter(roles.channels_out, roles.taken, filter_offset)
    return None if filter_ is None else _with_filter(kind, sizes, filter_, result_offset)


def _with_filter(kind: str, sizes: _Sizes, filter_: Strided, result_offset: Dim) -> Convolution | None:
    roles, spots, groups = sizes.roles, sizes.roles.spots, sizes.groups.constant
    if (
        groups is None
        or not sizes.follow(roles.image, roles.taken)
        or not sizes.follow(roles.result, roles.channels_out)
    ):
        return None
    image = Strided(
        IMAGE,
        roles.image_offset,
        (sizes.of(roles.batch), sizes.of(roles.taken) * groups, *(spot.extent for spot in spots)),
        (sizes.step(roles.image, roles.batch), sizes.channel(roles.image, roles.taken), *(s.stride for s in spots)),
    )
    result = Strided(
        RESULT,
        result_offset,
        (sizes.of(roles.batch), sizes.of(roles.channels_out) * groups, *(sizes.of(_listed(s.axis)) for s in spots)),
        (
            sizes.step(roles.result, roles.batch),
            sizes.channel(roles.result, roles.channels_out),
            *(sizes.step(roles.result, _listed(spot.axis)) for spot in spots),
        ),
    )
    if any(_goes_back(stride) for one in (image, filter_, result) for stride in one.strides):
        return None
    low = tuple(ZERO - spot.offset for spot in spots)
    steps, dilations = tuple(spot.step for spot in spots), tuple(spot.dilation for spot in spots)
    return Convolution(kind, image, filter_, result, steps, dilations, low, groups)


def _goes_back(stride: Dim) -> bool:
    """Whether neighbours may be the same element, or come in the other order."""
    return not stride.terms or any(factor < 0 for _, factor in stride.terms)


def _of_the_image(space: Space, roles: Roles, filter_offset: Dim, result_offset: Dim) -> Convolution | None:
    """What was read with zeros in between is the result of the convolution, what is made is its image. The filter lies
    the other way round, and gives the channels that it took."""
    sizes = _Sizes(space, roles)
    windows = sizes.windows()
    if windows is None:
        return None
    offset = filter_offset
    for spot, window in zip(roles.spots, windows, strict=True):
        if spot.window is not None:
            factor = roles.filter[spot.window]
            offset = offset + factor * (window - 1)
            roles.filter[spot.window] = ZERO - factor
    filter_ = sizes.filter(roles.taken, roles.channels_out, offset)
    turned = None if filter_ is None else _with_filter(FORWARD, sizes, filter_, result_offset)
    if turned is None:
        return None
    reach = [(window - 1) * spot.dilation for window, spot in zip(windows, roles.spots, strict=True)]
    return Convolution(
        DATA,
        replace(turned.result, operand=IMAGE),
        turned.filter,
        replace(turned.image, operand=RESULT),
        tuple(spot.interior for spot in roles.spots),
        turned.dilations,
        tuple(dim(most) + spot.offset for most, spot in zip(reach, roles.spots, strict=True)),
        turned.groups,
    )


def _listed(axis: int | None) -> list[int]:
    return [] if axis is None else [axis]


@dataclass(frozen=True, slots=True)
class _Sizes:
    """Extents and strides of axes by role; a role without axis has one point."""

    space: Space
    roles: Roles

    @property
    def groups(self) -> Dim:
        return self.of(self.roles.groups)

    def of(self, axes: Sequence[int]) -> Dim:
        return self.space.extents[axes[0]] if axes else ONE

    def step(self, terms: Mapping[int, Dim], axes: Sequence[int]) -> Dim:
        return terms[axes[0]] if axes else ONE

    def channel(self, terms: Mapping[int, Dim], axes: Sequence[int]) -> Dim:
        """The stride of channels that groups are a part of."""
        return self.step(terms, axes if axes or not self.roles.groups else self.roles.groups)

    def follow(self, terms: Mapping[int, Dim], axes: Sequence[int]) -> bool:
        """Whether the channels of one group lie behind those of the group before."""
        groups = self.roles.groups
        return not groups or not axes or terms[groups[0]] == terms[axes[0]] * self.space.extents[axes[0]]

    def filter(self, outer: Sequence[int], inner: Sequence[int], offset: Dim) -> Strided | None:
        """The filter; `outer` are the channels that groups are a part of."""
        windows, terms = self.windows(), self.roles.filter
        groups = self.groups.constant
        if windows is None or groups is None or not self.follow(terms, outer):
            return None
        along = [self.step(terms, _listed(spot.window)) for spot in self.roles.spots]
        extents = (self.of(outer) * groups, self.of(inner), *map(dim, windows))
        return Strided(FILTER, offset, extents, (self.channel(terms, outer), self.step(terms, inner), *along))

    def windows(self) -> list[int] | None:
        """The elements of a window, which are plain numbers."""
        windows = [self.of(_listed(spot.window)).constant for spot in self.roles.spots]
        known = [one for one in windows if one is not None and one > 0]
        return known if len(known) == len(windows) else None
