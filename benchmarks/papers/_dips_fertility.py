"""The case study of paper DIPS: support vector machines trained on stand-ins of the fertility table (section 5).

80 of 100 records are released, 20 are kept to test on. "Consistency rate" is the accuracy on the 20. Distances of
tables are L1 distances of proportions, averaged over all tables of that many of the eight categorical variables.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.papers._dips_common import Array, Record
from benchmarks.papers._private_erm import HUBER, objective_perturbation
from understudy.curator import Curator
from understudy.data import LocalTable
from understudy.errors import DataError
from understudy.mechanisms import create, methods
from understudy.privacy import Ledger, PureDP, SeededRandomness, Unit
from understudy.schema import Integer, Schema

FILE = "fertility/fertility_Diagnosis.txt"
NAMES = (
    "season",
    "age",
    "diseases",
    "accident",
    "surgery",
    "fevers",
    "alcohol",
    "smoking",
    "hours",
    "altered",
)
VALUES: dict[str, Sequence[float]] = {
    "season": (-1, -0.33, 0.33, 1),
    "diseases": (0, 1),
    "accident": (0, 1),
    "surgery": (0, 1),
    "fevers": (-1, 0, 1),
    "alcohol": (0.2, 0.4, 0.6, 0.8, 1),
    "smoking": (-1, 0, 1),
    "altered": (0, 1),
}
BINS = {"age": np.linspace(0.5, 1.0, 5), "hours": np.linspace(1 / 16, 1.0, 5)}
"""Public bins: ages 18 to 36 over 36, hours 1 to 16 over 16, four of each."""
CATEGORICAL = tuple(name for name in NAMES if name not in BINS)
SIZES = {name: len(BINS[name]) - 1 if name in BINS else len(VALUES[name]) for name in NAMES}
TRAIN, TEST, EPSILON = 80, 20, float(np.e)
REGISTERED: dict[str, tuple[str, dict[str, Any]]] = {
    "laplace": ("laplace", {"post_processing": "zero-truncation"}),
    "laplace, simplex": ("laplace", {}),
    "modips, saturated, naive": (
        "modips",
        {"model": "saturated", "posterior": "naive", "alpha": 0.5, "max_cells": 50_000},
    ),
    "modips, saturated": ("modips", {"model": "saturated", "max_cells": 50_000}),
    "independent": ("independent", {}),
    "mst": ("mst", {}),
    "privbayes": ("privbayes", {}),
}


def load(folder: Path) -> Array:
    """Read the table as it is published: normalised numbers, the diagnosis last (1: altered)."""
    path = folder / FILE
    if not path.exists():
        raise DataError(f"The case study needs {FILE} in {folder}.")
    frame = pd.read_csv(path, header=None, names=list(NAMES))
    frame["altered"] = (frame["altered"] == "O").astype(float)
    return frame.to_numpy(dtype=np.float64)


def encode(values: Array) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Codes of records; numbers by their public bins."""
    columns = []
    for place, name in enumerate(NAMES):
        if name in BINS:
            edges = BINS[name]
            columns.append(
                np.clip(np.searchsorted(edges, values[:, place], side="right") - 1, 0, len(edges) - 2)
            )
        else:
            columns.append(np.abs(values[:, place, None] - np.asarray(VALUES[name])).argmin(axis=1))
    return np.stack(columns, axis=1).astype(np.int64)


def decode(codes: np.ndarray[Any, Any], generator: np.random.Generator) -> Array:
    """Records of codes; numbers drawn evenly inside their bins."""
    columns = []
    for place, name in enumerate(NAMES):
        code = codes[:, place].astype(np.int64)
        if name in BINS:
            edges = BINS[name]
            columns.append(edges[code] + np.diff(edges)[code] * generator.random(len(code)))
        else:
            columns.append(np.asarray(VALUES[name], dtype=np.float64)[code])
    return np.stack(columns, axis=1)


def distances(real: np.ndarray[Any, Any], other: np.ndarray[Any, Any]) -> dict[str, float]:
    """Average L1 distance of all 1-, 2-, 3- and 8-way tables of the categorical variables."""
    places = [NAMES.index(name) for name in CATEGORICAL]
    found = {}
    for k in (1, 2, 3, 8):
        gaps = []
        for chosen in combinations(places, k):
            sizes = [SIZES[NAMES[place]] for place in chosen]
            tables = []
            for codes in (real, other):
                index = np.ravel_multi_index([codes[:, place].astype(np.int64) for place in chosen], sizes)
                tables.append(np.bincount(index, minlength=int(np.prod(sizes))) / max(1, len(codes)))
            gaps.append(float(np.abs(tables[0] - tables[1]).sum()))
        found[f"{k}-way"] = float(np.mean(gaps))
    return found


def machine(train: Array, test: Array) -> Array:
    """Say for each test record whether a linear support vector machine (C = 1) calls it altered."""
    from sklearn.svm import SVC

    labels = train[:, -1]
    if len(np.unique(labels)) < 2:
        return np.full(len(test), labels[0] if len(labels) else 0.0)
    fitted = SVC(kernel="linear", C=1.0).fit(train[:, :-1], labels)
    return np.asarray(fitted.predict(test[:, :-1]), dtype=np.float64)


def private_machine(train: Array, test: Array, sensitivity: float, generator: np.random.Generator) -> Array:
    """PrivateSVM: weights of the machine plus Laplace noise of the given sensitivity over epsilon."""
    from sklearn.svm import SVC

    labels = train[:, -1]
    if len(np.unique(labels)) < 2:
        weights, offset = np.zeros(train.shape[1] - 1), 2 * labels[0] - 1
    else:
        fitted = SVC(kernel="linear", C=1.0).fit(train[:, :-1], labels)
        weights, offset = fitted.coef_[0], float(fitted.intercept_[0])
    noisy = weights + generator.laplace(0, sensitivity / EPSILON, len(weights))
    return np.asarray(test[:, :-1] @ noisy + offset > 0, dtype=np.float64)


def private_risk(train: Array, test: Array, generator: np.random.Generator) -> Array:
    """A machine with a proof: Huber loss and objective perturbation, records scaled to norm one."""
    bound = np.sqrt(len(NAMES))  # nine numbers between -1 and 1, and a constant
    scaled = [np.column_stack([part[:, :-1], np.ones(len(part))]) / bound for part in (train, test)]
    weights = objective_perturbation(
        scaled[0], 2 * train[:, -1] - 1, loss=HUBER, regularisation=0.05, epsilon=EPSILON, generator=generator
    )
    return np.asarray(scaled[1] @ weights > 0, dtype=np.float64)


def occupied_only(codes: np.ndarray[Any, Any], generator: np.random.Generator) -> np.ndarray[Any, Any]:
    """NOT private: Laplace noise on the cells that hold records, none on the empty ones.

    It is here because it is what the paper's distances look like.
    """
    cells, counts = np.unique(codes, axis=0, return_counts=True)
    noisy = np.maximum(counts + generator.laplace(0, 1 / EPSILON, len(counts)), 0.0)
    return cells[generator.choice(len(cells), TRAIN, p=noisy / noisy.sum())]


def _stand_in(name: str, codes: np.ndarray[Any, Any], seed: int) -> np.ndarray[Any, Any]:
    """Fit a registered method on the training records and draw as many."""
    schema = Schema(
        columns=tuple(Integer(column, minimum=0, maximum=SIZES[column] - 1) for column in NAMES),
        name="fertility",
        row_count=TRAIN,
    )
    table = LocalTable(
        schema, {column: codes[:, place].astype(np.uint8) for place, column in enumerate(NAMES)}
    )
    unit = Unit.add_remove()
    ledger = Ledger.in_memory(budget=PureDP(EPSILON), unit=unit, table="fertility")
    curator = Curator(table, unit=unit, ledger=ledger, randomness=SeededRandomness(seed))
    method, options = REGISTERED[name]
    drawn = create(method, **options).fit(curator, PureDP(EPSILON)).sample_codes(TRAIN, seed=seed)
    return np.stack([drawn[column] for column in NAMES], axis=1).astype(np.int64)


def run(folder: Path, *, repetitions: int, seed: int = 0, say: Callable[[str], None] = print) -> list[Record]:
    """Every baseline and method, over random splits."""
    values = load(folder)
    known = {item.name for item in methods()}
    names = [name for name, (method, _) in REGISTERED.items() if method in known]
    kept: dict[str, list[dict[str, float]]] = {}
    for repetition in range(repetitions):
        generator = np.random.default_rng([seed, repetition])
        order = generator.permutation(len(values))
        train, test = values[order[:TRAIN]], values[order[TRAIN : TRAIN + TEST]]
        codes = encode(train)
        truth = test[:, -1]

        def note(name: str, said: Array, stand_in: np.ndarray[Any, Any] | None, numbers: Array) -> None:
            row = {"consistency": float((said == truth).mean())}  # noqa: B023
            if stand_in is not None:
                row |= distances(codes, stand_in)  # noqa: B023
                for column in BINS:
                    place = NAMES.index(column)
                    row |= {
                        f"mean {column}": float(numbers[:, place].mean()),
                        f"sd {column}": float(numbers[:, place].std()),
                    }
            kept.setdefault(name, []).append(row)

        note("original", machine(train, test), codes, train)
        note("majority", np.zeros(TEST), None, train)
        note(
            "PrivateSVM, 1.35 as in the paper (not private)",
            private_machine(train, test, 1.35, generator),
            None,
            train,
        )
        note("private ERM, objective perturbation", private_risk(train, test, generator), None, train)
        stand_in = occupied_only(codes, generator)
        drawn = decode(stand_in, generator)
        note("laplace on occupied cells (not private)", machine(drawn, test), stand_in, drawn)
        for name in names:
            stand_in = _stand_in(name, codes, 1000 * seed + repetition)
            drawn = decode(stand_in, generator)
            note(name, machine(drawn, test), stand_in, drawn)
        if (repetition + 1) % 10 == 0:
            say(f"fertility: {repetition + 1} of {repetitions} splits")
    return [
        {"method": name, "repetitions": len(rows), "epsilon": EPSILON}
        | {measure: float(np.mean([row[measure] for row in rows])) for measure in rows[0]}
        for name, rows in kept.items()
    ]
