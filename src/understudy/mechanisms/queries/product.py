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
    layout: Layout, matrix: Singles, targets: Sequence[Target], rows: float
) -> tuple[float, Singles]:
    """Return half the weighted squared misfit, and its gradient in every entry of the margins.

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
        order = _widest_last(margins, target.clique)
        parts = [margins[name] for name in order]
        left, last = _outer(parts[:-1]), parts[-1]
        flat = left.T @ last if left is not None else last.sum(axis=0)[None, :]
        shape = [part.shape[1] for part in parts]
        turned = [order.index(name) for name in target.clique]
        told = flat.reshape(shape).transpose(turned).ravel() * np.float32(rows / len(matrix))
        misfit = (told if target.queries is None else target.queries @ told) - target.values
        loss += 0.5 * float(np.square(misfit).sum()) / target.variance
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


def calm_gradient(
    layout: Layout, margins: Singles, targets: Sequence[Target], rows: float, *, calm: float, usual: Singles
) -> tuple[float, Singles]:
    """Return the misfit, and its gradient with ``calm`` times that of what the parts know added."""
    loss, gradient = loss_gradient(layout, margins, targets, rows)
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
