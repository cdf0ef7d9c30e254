"""Random small problems for the engine, and the slow answers they are judged by."""

from __future__ import annotations

from itertools import combinations

import numpy as np
from hypothesis import strategies as st
from scipy.optimize import nnls

from understudy.engine.graphical.factors import shape_of, sum_to
from understudy.marginals import Measurement
from understudy.schema import Domain

NAMES = tuple("abcdefgh")


@st.composite
def domains(draw, max_columns=5, max_size=4):
    sizes = draw(st.lists(st.integers(1, max_size), min_size=1, max_size=max_columns))
    return Domain(NAMES[: len(sizes)], tuple(sizes))


@st.composite
def cliques(draw, domain, max_cliques=5, max_width=3):
    count = draw(st.integers(0, max_cliques))
    return [
        domain.canonical(draw(st.sets(st.sampled_from(domain.names), max_size=min(max_width, len(domain)))))
        for _ in range(count)
    ]


@st.composite
def models(draw, spread=3.0, zeros=True, **options):
    """A domain and log potentials over random cliques, some of their cells forbidden."""
    domain = draw(domains(**options))
    generator = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    potentials = []
    for clique in draw(cliques(domain)):
        values = generator.normal(size=domain.shape(clique)) * spread
        if zeros and values.size > 2 and draw(st.booleans()):
            values[generator.random(values.shape) < 0.2] = -np.inf
        potentials.append((clique, np.asarray(values)))
    return domain, tuple(potentials)


@st.composite
def problems(draw, noise="gaussian", max_columns=4, max_size=3):
    """A domain with a total and noisy marginals of a random table."""
    domain = draw(domains(max_columns=max_columns, max_size=max_size))
    generator = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    table = generator.dirichlet(np.full(domain.cells(), 0.3)).reshape(domain.sizes) * 200
    wanted = draw(cliques(domain, max_cliques=5, max_width=2))
    measurements = []
    for clique in wanted:
        scale = float(generator.uniform(1, 8))
        error = getattr(generator, "normal" if noise == "gaussian" else "laplace")(size=domain.shape(clique))
        measurements.append(
            Measurement(clique, marginal_of(table, domain, clique) + error * scale, noise, scale)
        )
    return domain, measurements


def marginal_of(table, domain, clique):
    columns = tuple(domain.index(name) for name in clique)
    return np.asarray(sum_to(table, tuple(range(len(domain))), columns))


def every_clique(domain):
    return [clique for size in range(len(domain) + 1) for clique in combinations(domain.names, size)]


def joint_table(domain, potentials, total):
    """The whole table of a small model, by multiplying its factors out."""
    table = np.zeros(domain.sizes)
    for clique, values in potentials:
        shape = [domain.size(name) if name in clique else 1 for name in domain.names]
        table = table + np.reshape(values, shape)
    peak = table.max()
    if not np.isfinite(peak):
        return None
    table = np.exp(table - peak)
    return total * table / table.sum()


def design(domain, clique):
    """The matrix that sums a flat joint table down to a clique."""
    cells = domain.cells()
    units = np.eye(cells).reshape((cells, *domain.sizes))
    columns = tuple(domain.index(name) for name in clique)
    every = tuple(range(len(domain)))
    return np.stack([np.ravel(sum_to(unit, every, columns)) for unit in units], axis=1)


def least_squares_optimum(domain, measurements, total, allowed=None):
    """Smallest weighted sum of squares over all tables of the given total, by a general solver."""
    allowed = np.ones(domain.sizes, dtype=bool) if allowed is None else allowed
    rows, values = [], []
    for item in measurements:
        rows.append(design(domain, item.clique)[:, allowed.ravel()] / item.stddev)
        values.append(item.values.ravel() / item.stddev)
    heavy = 1e4
    rows.append(np.full((1, int(allowed.sum())), heavy))
    values.append(np.array([heavy * total]))
    matrix, right = np.concatenate(rows), np.concatenate(values)
    table, _ = nnls(matrix, right, maxiter=10_000)
    table *= total / table.sum()
    return 0.5 * float(np.square(matrix @ table - right).sum())


def squared_loss(model, measurements):
    answers = model.marginals([item.clique for item in measurements])
    return sum(
        0.5 * float(np.square(answer - item.values).sum()) / item.variance
        for answer, item in zip(answers, measurements, strict=True)
    )


def shape(sizes, columns):
    return shape_of(sizes, columns)
