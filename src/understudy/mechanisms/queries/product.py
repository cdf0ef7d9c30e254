"""Mixtures of products while they are being fitted: answers, loss and gradients. Post-processing of released answers.

A mixture has ``B`` parts of equal weight; in each part the columns are independent. Its marginal over columns ``a, b, c``
is ``M[i,j,k] = mean_p A[p,i] B[p,j] C[p,k]``: no table over the whole domain is ever built, and the work for one clique
is ``B`` times its cells. Gradients are written by hand: with ``G = dLoss/dM``, ``dLoss/dA[p,i] = mean over parts of
sum_jk G[i,j,k] B[p,j] C[p,k]``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from understudy.marginals import Query
from understudy.schema import Clique, Domain

Floats = npt.NDArray[np.float64]
Singles = npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Target:
    """A released answer: all cells of a marginal, or a few linear queries over one clique.

    Attributes
    ----------
    clique
        The columns.
    values
        Released counts, flat: one per cell, or one per query.
    variance
        Variance of the noise of each.
    queries
        One row of values per query over the cells of the clique; ``None`` where the cells themselves were measured.
    """

    clique: Clique
    values: Floats
    variance: float
    queries: Floats | None = None


@dataclass(frozen=True, eq=False)
class CellTarget:
    """Released counts of single cells, each of some marginal.

    Attributes
    ----------
    places
        Where the codes of each cell stand in the wide matrix of a :class:`Layout`, one row per cell.
    values
        Released counts.
    variance
        Variance of the noise of each.
    """

    places: npt.NDArray[np.int64]
    values: Floats
    variance: float


def target_of_cells(
    layout: Layout, cells: Sequence[tuple[Clique, tuple[int, ...]]], values: Floats, variance: float
) -> list[CellTarget]:
    """Group released counts of single cells by their number of columns.

    Examples
    --------
    >>> layout = Layout(Domain(("a", "b"), (2, 3)))
    >>> (target,) = target_of_cells(layout, [(("a", "b"), (1, 2))], np.array([5.0]), 1.0)
    >>> target.places.tolist()
    [[1, 4]]
    """
    groups: dict[int, list[int]] = {}
    for place, (clique, _) in enumerate(cells):
        groups.setdefault(len(clique), []).append(place)
    return [
        CellTarget(
            np.array(
                [
                    [
                        layout.slices[name].start + code
                        for name, code in zip(cells[i][0], cells[i][1], strict=True)
                    ]
                    for i in members
                ]
            ),
            values[members],
            variance,
        )
        for members in groups.values()
    ]


def target_of_queries(queries: Sequence[Query], values: Floats, variance: float) -> list[Target]:
    """Group released answers by the columns of their queries."""
    groups: dict[Clique, list[int]] = {}
    for place, query in enumerate(queries):
        groups.setdefault(query.clique, []).append(place)
    return [
        Target(
            clique, values[places], variance, np.stack([queries[place].values.ravel() for place in places])
        )
        for clique, places in groups.items()
    ]


class Layout:
    """Where each column's codes stand when the margins of all columns are one wide matrix."""

    def __init__(self, domain: Domain) -> None:
        self.domain = domain
        self.width = sum(domain.sizes)
        ends = np.cumsum(domain.sizes).tolist()
        self.slices = {
            name: slice(end - size, end)
            for name, size, end in zip(domain.names, domain.sizes, ends, strict=True)
        }

    def split(self, matrix: Singles) -> dict[str, Singles]:
        """Return the columns' parts of a wide matrix, as views."""
        return {name: matrix[:, where] for name, where in self.slices.items()}


def shares(margins: Mapping[str, Singles], clique: Clique) -> Floats:
    """Return the marginal of a mixture as shares, axes in the order of the clique.

    Examples
    --------
    >>> margins = {"a": np.eye(2, dtype=np.float32), "b": np.eye(2, dtype=np.float32)}
    >>> shares(margins, ("a", "b"))
    array([[0.5, 0. ],
           [0. , 0.5]])
    """
    order = _widest_last(margins, clique)
    left = _outer([margins[name] for name in order[:-1]])
    last = margins[order[-1]]
    table = (left.T @ last if left is not None else last.sum(axis=0)) / np.float32(len(last))
    shaped = table.reshape([margins[name].shape[1] for name in order])
    return np.asarray(shaped.transpose([order.index(name) for name in clique]), dtype=np.float64)


def loss_gradient(
    layout: Layout,
    matrix: Singles,
    targets: Sequence[Target | CellTarget],
    rows: float,
    *,
    absolute: bool = False,
) -> tuple[float, Singles]:
    """Return half the weighted squared misfit, and its gradient in every entry of the margins.

    If ``absolute``, it is the sum of absolute misfits in parts of their noise instead.

    Parameters
    ----------
    layout, matrix
        The margins of all parts, side by side.
    targets
        Released answers, in rows.
    rows
        The number of rows the mixture stands for.
    """
    margins = layout.split(matrix)
    gradient = np.zeros_like(matrix)
    slopes = layout.split(gradient)
    loss = 0.0
    for target in targets:
        if isinstance(target, CellTarget):
            loss += _cells_gradient(target, matrix, gradient, rows, absolute=absolute)
            continue
        order = _widest_last(margins, target.clique)
        parts = [margins[name] for name in order]
        left, last = _outer(parts[:-1]), parts[-1]
        flat = left.T @ last if left is not None else last.sum(axis=0)[None, :]
        shape = [part.shape[1] for part in parts]
        turned = [order.index(name) for name in target.clique]
        answered = flat.reshape(shape).transpose(turned).ravel() * np.float32(rows / len(matrix))
        misfit = (answered if target.queries is None else target.queries @ answered) - target.values
        part, misfit = _loss(misfit, target.variance, absolute=absolute)
        loss += part
        pull = np.asarray(misfit if target.queries is None else misfit @ target.queries, np.float64)
        pull = pull * (rows / len(matrix) / target.variance)
        back = pull.reshape([shape[place] for place in turned]).transpose(np.argsort(turned))
        outer = np.ascontiguousarray(back, dtype=np.float32).reshape(-1, shape[-1])
        if left is None:
            slopes[order[-1]] += outer
            continue
        slopes[order[-1]] += left @ outer
        _spread(last @ outer.T, parts[:-1], [slopes[name] for name in order[:-1]])
    return loss, gradient


def _loss(misfit: Floats, variance: float, *, absolute: bool) -> tuple[float, Floats]:
    """Return the loss of some misfits, and its slope in each times the variance."""
    if absolute:
        return float(np.abs(misfit).sum()) / variance**0.5, np.sign(misfit) * variance**0.5
    return 0.5 * float(np.square(misfit).sum()) / variance, misfit


def _cells_gradient(
    target: CellTarget, matrix: Singles, gradient: Singles, rows: float, *, absolute: bool
) -> float:
    """Add the gradient of the misfit of single cells, and return the misfit: products of a few columns of the matrix."""
    factors = [matrix[:, column] for column in target.places.T]
    scale = rows / len(matrix)
    answered = np.prod(factors, axis=0).sum(axis=0, dtype=np.float64) * scale
    loss, misfit = _loss(answered - target.values, target.variance, absolute=absolute)
    pull = (misfit * (scale / target.variance)).astype(np.float32)
    for number, column in enumerate(target.places.T):
        others = factors[:number] + factors[number + 1 :]
        slope = (np.prod(others, axis=0) if others else np.ones_like(factors[number])) * pull
        here = np.zeros((len(column), matrix.shape[1]), dtype=np.float32)
        here[np.arange(len(column)), column] = 1
        gradient += slope @ here
    return loss


def calm_gradient(
    layout: Layout,
    margins: Singles,
    targets: Sequence[Target | CellTarget],
    rows: float,
    *,
    calm: float,
    usual: Singles,
    absolute: bool = False,
) -> tuple[float, Singles]:
    """Return the misfit, and its gradient with ``calm`` times that of what the parts know added."""
    loss, gradient = loss_gradient(layout, margins, targets, rows, absolute=absolute)
    if calm:
        gradient += np.float32(calm) * information_gradient(margins, usual)
    return loss, gradient


def information_gradient(margins: Singles, usual: Singles) -> Singles:
    """Return the gradient of what the parts know about the columns: the mean divergence of their margins from the usual.

    ``mean_p sum_columns KL(margin of part p || usual margin)`` bounds the total correlation of the mixture from above.
    Adding a multiple of it to the loss prefers, among mixtures that fit equally well, one that says little that was not
    measured: without it random differences between parts show up as relations between columns.
    """
    tiny = np.float32(1e-9)
    return np.asarray(np.log((margins + tiny) / (usual + tiny)) / np.float32(len(margins)), np.float32)


def _widest_last(margins: Mapping[str, Singles], clique: Clique) -> list[str]:
    return sorted(clique, key=lambda name: margins[name].shape[1])


def _outer(parts: Sequence[Singles]) -> Singles | None:
    """Return the products of several columns' margins, part by part; ``None`` for no column."""
    if not parts:
        return None
    table = parts[0]
    for part in parts[1:]:
        table = (table[:, :, None] * part[:, None, :]).reshape(len(part), -1)
    return table


def _spread(slope: Singles, parts: Sequence[Singles], slopes: Sequence[Singles]) -> None:
    """Add the gradient of a product of margins to the gradients of its factors."""
    if len(parts) == 1:
        slopes[0][...] += slope
        return
    first = _outer(parts[:-1])
    assert first is not None
    table = slope.reshape(len(slope), first.shape[1], parts[-1].shape[1])
    slopes[-1][...] += np.einsum("pi,pij->pj", first, table)
    _spread(np.einsum("pij,pj->pi", table, parts[-1]), parts[:-1], slopes[:-1])


def softmax(layout: Layout, logits: Singles) -> Singles:
    """Return margins from logits, column by column."""
    made = np.empty_like(logits)
    for where in layout.slices.values():
        part = logits[:, where]
        grown = np.exp(part - part.max(axis=1, keepdims=True))
        made[:, where] = grown / grown.sum(axis=1, keepdims=True)
    return made


def softmax_back(layout: Layout, margins: Singles, gradient: Singles) -> Singles:
    """Return the gradient in the logits from that in the margins."""
    made = np.empty_like(gradient)
    for where in layout.slices.values():
        part, slope = margins[:, where], gradient[:, where]
        made[:, where] = part * (slope - (part * slope).sum(axis=1, keepdims=True))
    return made


def sparsemax(layout: Layout, scores: Singles) -> Singles:
    """Return the margins closest to the scores (Euclidean projection onto the simplex), column by column.

    Examples
    --------
    >>> sparsemax(Layout(Domain(("a",), (3,))), np.array([[1.5, 1.0, 0.0]], dtype=np.float32))
    array([[0.75, 0.25, 0.  ]], dtype=float32)
    """
    made = np.empty_like(scores)
    for where in layout.slices.values():
        part = scores[:, where]
        ordered = -np.sort(-part, axis=1)
        excess = np.cumsum(ordered, axis=1) - np.float32(1)
        number = np.arange(1, part.shape[1] + 1, dtype=np.float32)
        last = (ordered * number > excess).sum(axis=1, keepdims=True) - 1
        threshold = np.take_along_axis(excess, last, axis=1) / (last + 1)
        made[:, where] = np.maximum(part - threshold.astype(np.float32), np.float32(0))
    return made


def sparsemax_back(layout: Layout, margins: Singles, gradient: Singles) -> Singles:
    """Return the gradient in the scores: on the support of each margin, less its mean there."""
    made = np.empty_like(gradient)
    for where in layout.slices.values():
        support = margins[:, where] > 0
        slope = np.where(support, gradient[:, where], np.float32(0))
        mean = slope.sum(axis=1, keepdims=True) / support.sum(axis=1, keepdims=True)
        made[:, where] = np.where(support, slope - mean, np.float32(0))
    return made


class Adam:
    """Adam (Kingma and Ba 2015) on a list of arrays, changed in place.

    Examples
    --------
    >>> x = np.array([1.0], dtype=np.float32)
    >>> stepper = Adam([x], rate=0.1)
    >>> for _ in range(200):
    ...     stepper.step([2 * x])
    >>> bool(abs(x[0]) < 0.01)
    True
    """

    def __init__(self, arrays: Sequence[Singles], *, rate: float) -> None:
        self.arrays = list(arrays)
        self.rate = rate
        self._first = [np.zeros_like(array) for array in arrays]
        self._second = [np.zeros_like(array) for array in arrays]
        self._steps = 0

    def step(self, gradients: Sequence[Singles], *, done: float = 0.0) -> None:
        """Move every array against its gradient; the step size falls to nothing while ``done`` goes from a half to one."""
        self._steps += 1
        one, two = 1 - 0.9**self._steps, 1 - 0.99**self._steps
        rate = self.rate * (1.0 if 2 * done < 1 else 2 * (1 - done))
        size = np.float32(rate / one)
        for array, slope, first, second in zip(
            self.arrays, gradients, self._first, self._second, strict=True
        ):
            first *= np.float32(0.9)
            first += np.float32(0.1) * slope
            second *= np.float32(0.99)
            second += np.float32(0.01) * np.square(slope)
            array -= size * first / (np.sqrt(second / np.float32(two)) + np.float32(1e-8))
