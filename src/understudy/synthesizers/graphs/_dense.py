"""Which pairs to measure, and which of them together: DenseMarg of PrivSyn. Public inputs only.

Leaving a pair out costs its distance from independence; measuring it costs noise, and makes the noise of all others
larger. With ``c`` cells in a marginal, cost shares proportional to ``c^(2/3)`` minimise the summed expected L1 noise of
Gaussian measurements; the least sum is ``k (sum c^(2/3))^(3/2)``, where ``k`` is the expected absolute noise of one cell
if one marginal got the whole cost. For Laplace noise, whose scale falls with the cost instead of its root, shares are
proportional to ``c^(1/2)`` and the sum is ``k (sum c^(1/2))^2``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from understudy.schema import Clique, Domain

_MOST_CLIQUES = 20_000


def share_power(accounting: str) -> float:
    """Return the power of the number of cells that a marginal's share of a cost is proportional to."""
    return 0.5 if accounting == "pure" else 2 / 3


def noise_error(cells: Iterable[int], *, one_cell: float, power: float) -> float:
    """Return the expected L1 noise of several marginals that share a cost in the best way, in rows.

    Parameters
    ----------
    cells
        Number of cells of each marginal.
    one_cell
        Expected absolute noise of a cell when a single marginal gets the whole cost.
    power
        That of :func:`share_power`; the sum of the shares is raised to its inverse.

    Examples
    --------
    >>> noise_error([8], one_cell=1.0, power=2 / 3)
    8.0
    >>> noise_error([4, 16], one_cell=1.0, power=0.5)
    36.0
    """
    total = sum(float(size) ** power for size in cells)
    return float(round(one_cell * total ** (1 / power), 9))


def select_pairs(
    cells: Sequence[int], gaps: Sequence[float], *, one_cell: float, power: float
) -> tuple[list[int], list[float]]:
    """Choose pairs greedily as long as the expected error of all pairs falls (PrivSyn, Algorithm 1).

    Parameters
    ----------
    cells
        Number of cells of each pair.
    gaps
        Noisy distance from independence of each pair, in rows.
    one_cell, power
        As in :func:`noise_error`.

    Returns
    -------
    chosen
        Positions in the order they were chosen.
    errors
        Expected error before the first and after each choice; falls strictly.

    Examples
    --------
    >>> select_pairs([4, 4, 4], [900.0, 5.0, 400.0], one_cell=2.0, power=2 / 3)[0]
    [0, 2]
    """
    weights = np.asarray(cells, dtype=np.float64) ** power
    gap = np.asarray(gaps, dtype=np.float64)
    open_ = np.ones(len(weights), dtype=bool)
    chosen: list[int] = []
    shares, noise = 0.0, 0.0
    errors = [float(gap.sum())]
    while open_.any():
        noises = one_cell * (shares + weights) ** (1 / power)
        after = np.where(open_, errors[-1] - gap + (noises - noise), np.inf)
        best = int(np.argmin(after))
        if not after[best] < errors[-1]:
            break
        chosen.append(best)
        open_[best] = False
        shares += float(weights[best])
        noise = float(noises[best])
        errors.append(float(after[best]))
    return chosen, errors


def combine_pairs(domain: Domain, pairs: Sequence[Clique], *, max_cells: int) -> list[Clique]:
    """Merge pairs that form small cliques of the dependency graph (PrivSyn, Algorithm 2).

    Cliques are looked at from large to small, those with fewer cells first among equally large ones. One is taken if it
    has at most ``max_cells`` cells and shares at most two columns with those taken before. Pairs inside no clique
    that was taken stay pairs.

    Examples
    --------
    >>> domain = Domain(("a", "b", "c", "d"), (2, 3, 4, 5))
    >>> combine_pairs(domain, [("a", "b"), ("a", "c"), ("b", "c"), ("c", "d")], max_cells=100)
    [('a', 'b', 'c'), ('c', 'd')]
    >>> combine_pairs(domain, [("a", "b"), ("a", "c"), ("b", "c")], max_cells=10)
    [('a', 'b'), ('a', 'c'), ('b', 'c')]
    """
    taken: list[Clique] = []
    covered: set[str] = set()
    for clique in _cliques(domain, pairs, max_cells):
        if len(covered.intersection(clique)) <= 2:
            taken.append(clique)
            covered.update(clique)
    return [*taken, *(pair for pair in pairs if not any(set(pair) <= set(clique) for clique in taken))]


def _cliques(domain: Domain, pairs: Sequence[Clique], max_cells: int) -> list[Clique]:
    """Return cliques of three columns or more within a number of cells, large ones first.

    Every part of a clique has fewer cells than the clique, so cliques are grown column by column from ones that fit.
    """
    after: dict[str, set[str]] = {name: set() for name in domain.names}
    for left, right in pairs:
        after[left].add(right)
    found: list[Clique] = []
    layer: list[tuple[Clique, set[str]]] = [
        (pair, after[pair[0]] & after[pair[1]]) for pair in pairs if domain.cells(pair) <= max_cells
    ]
    while layer and len(found) < _MOST_CLIQUES:
        layer = [
            ((*clique, name), rest & after[name])
            for clique, rest in layer
            for name in sorted(rest, key=domain.index)
            if domain.cells((*clique, name)) <= max_cells
        ][:_MOST_CLIQUES]
        found += [clique for clique, _ in layer]
    return sorted(found, key=lambda clique: (-len(clique), domain.cells(clique), clique))
