"""Encoded tables as the measures take them, and as learning algorithms take them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from understudy.errors import WorkloadError
from understudy.schema import Domain

Codes = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


def as_codes(domain: Domain, table: Mapping[str, npt.ArrayLike] | npt.ArrayLike) -> Codes:
    """Return a table of codes as an array ``[rows, columns]`` in the order of the domain, checked.

    Examples
    --------
    >>> as_codes(Domain(("a", "b"), (2, 3)), {"b": [2, 0], "a": [0, 1]})
    array([[0, 2],
           [1, 0]])
    """
    if isinstance(table, Mapping):
        missing = [name for name in domain.names if name not in table]
        if missing:
            raise WorkloadError(f"The table lacks the columns {', '.join(missing)}.")
        table = np.stack([np.asarray(table[name]) for name in domain.names], axis=1)
    codes = np.asarray(table)
    if codes.ndim != 2 or codes.shape[1] != len(domain) or codes.dtype.kind not in "iub":
        raise WorkloadError(f"A table of codes must be whole numbers in {len(domain)} columns.")
    codes = codes.astype(np.int64)
    if len(codes) and ((codes < 0).any() or (codes >= np.array(domain.sizes)).any()):
        raise WorkloadError("The table holds codes outside the domain.")
    return codes


def one_hot(domain: Domain, codes: Codes, *, without: str) -> Floats:
    """Return every column but one as indicator features, each record scaled to norm one.

    Chaudhuri et al. (2011) ask for features in [0, 1] and records of norm at most one. A record has one
    indicator per column, so its norm is the square root of their number.

    Examples
    --------
    >>> one_hot(Domain(("a", "b"), (2, 2)), np.array([[1, 0]]), without="b")
    array([[0., 1.]])
    """
    chosen = [name for name in domain.names if name != without]
    pieces = [np.eye(domain.size(name))[codes[:, domain.index(name)]] for name in chosen]
    features: Floats = np.concatenate(pieces, axis=1) / np.sqrt(len(chosen))
    return features


def one_hot_all(domain: Domain, codes: Codes, *, drop_first: bool) -> Floats:
    """Return every column as indicators, of all values or of all but the first.

    Examples
    --------
    >>> one_hot_all(Domain(("a", "b"), (2, 3)), np.array([[1, 0]]), drop_first=True)
    array([[1., 0., 0.]])
    """
    start = 1 if drop_first else 0
    pieces = [np.eye(domain.size(name))[codes[:, domain.index(name)]][:, start:] for name in domain.names]
    features: Floats = np.concatenate(pieces, axis=1)
    return features


def split_target(domain: Domain, codes: Codes, target: str) -> tuple[Codes, Codes]:
    """Return the other columns and the target."""
    index = domain.index(target)
    return np.delete(codes, index, axis=1), codes[:, index]


def require_sklearn() -> Any:
    """Import scikit-learn, or say what to install."""
    try:
        import sklearn
    except ImportError as error:
        from understudy.errors import MissingExtra

        raise MissingExtra(
            "This measure needs the optional extra: pip install 'understudy[evaluation]' (scikit-learn)."
        ) from error
    return sklearn
