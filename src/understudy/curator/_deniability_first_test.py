"""Privacy Test 1 of paper Deniability: deterministic, for analysis only."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from understudy.curator._deniability_network import Ints, SeedModel
from understudy.errors import BudgetError


def plausibly_deniable(
    model: SeedModel, candidates: Ints, seeds: Ints, *, table: Ints, k: int, gamma: float
) -> npt.NDArray[np.bool_]:
    """Say which candidates pass Privacy Test 1: at least ``k`` records could have been the seed.

    Parameters
    ----------
    model
        The generator. It is asked for the number of plausible seeds only.
    candidates, seeds
        One generated record per row, and the record it grew from.
    table
        All records that may serve as seeds, one per row, the true seeds among them.
    k, gamma
        How many plausible seeds are wanted, the true one included, and the width of a class.

    Returns
    -------
    array of bool
        Where it is true, ``k`` records of ``table`` generate the candidate with probabilities within a
        factor ``gamma`` of each other: ``(k, gamma)``-plausible deniability.

    Privacy
    -------
    In: private. Out: **private**. The test is deterministic, so the answer is not differentially private: with
    exactly ``k`` plausible seeds, taking one of them away turns a record that may come out into one that
    cannot. The curator therefore never releases by it and no ledger can be charged for it; it takes arrays,
    not a curator, and is meant for public tables and for studying the generator. Releases use the
    randomised test, :class:`~understudy.curator.SeedTest`.

    Examples
    --------
    >>> from understudy.curator import Conditional, NetworkSeedModel
    >>> from understudy.schema import Domain
    >>> a = Conditional("a", (), (), np.array([0.5, 0.5]))
    >>> b = Conditional("b", ("a",), (np.array([0, 1]),), np.array([[0.9, 0.1], [0.2, 0.8]]))
    >>> model = NetworkSeedModel(Domain(("a", "b"), (2, 2)), (a, b), omega=(1,))
    >>> table = np.array([[0, 0], [0, 1], [1, 1]])
    >>> plausibly_deniable(model, np.array([[0, 1], [1, 0]]), table[[0, 2]], table=table, k=2, gamma=4.0)
    array([ True, False])
    """
    if k < 1 or not gamma > 1:
        raise BudgetError(f"Privacy Test 1 needs k of at least 1 and gamma above 1; got {k} and {gamma}.")
    types, counts = np.unique(np.asarray(table, dtype=np.int64), axis=0, return_counts=True)
    found = model.plausible(
        np.asarray(candidates, dtype=np.int64),
        np.asarray(seeds, dtype=np.int64),
        types,
        counts.astype(np.int64),
        gamma,
    )
    passed: npt.NDArray[np.bool_] = found >= k
    return passed
