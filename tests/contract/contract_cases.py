"""Tables the contract is checked on: one for every kind of table a mechanism may ask for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pandas as pd

from understudy.errors import UnderstudyError
from understudy.mechanisms import Synthesizer, create
from understudy.privacy import ApproxDP, Unit
from understudy.schema import Schema

CANARY = "canary-7f3a"
"""Planted in a column that no schema mentions; nothing made from the table may contain it."""


@dataclass(frozen=True)
class Case:
    """A schema and tables of any length that fit it."""

    text: str
    columns: Callable[[np.random.Generator, int], dict[str, np.ndarray]]

    @property
    def schema(self) -> Schema:
        return Schema.parse(self.text)

    def frame(self, n: int, seed: int = 0) -> pd.DataFrame:
        generator = np.random.default_rng(seed)
        made = self.columns(generator, n)
        return pd.DataFrame(
            {**made, "person": generator.integers(0, max(1, n // 2), n), "note": np.full(n, CANARY, object)}
        )


def _mixed(generator: np.random.Generator, n: int) -> dict[str, np.ndarray]:
    """Size follows colour, smoking follows age."""
    colour = generator.choice(3, n, p=[0.6, 0.3, 0.1])
    size = np.where(generator.random(n) < 0.9, colour, generator.integers(0, 3, n))
    age = generator.integers(0, 100, n)
    smokes = (age >= 18) & (generator.random(n) < np.where(age > 40, 0.6, 0.2))
    names = np.array(["red", "green", "blue"], dtype=object)[colour]
    names[generator.random(n) < 0.05] = None
    sizes = np.array(["small", "middle", "large"], dtype=object)[size]
    return {"colour": names, "size": sizes, "age": age, "smokes": smokes}


MIXED = Case(
    """
name: contract
columns:
  - {name: colour, kind: categorical, values: [red, green, blue], missing: true}
  - {name: size, kind: ordinal, values: [small, middle, large]}
  - {name: age, kind: integer, bins: {edges: [0, 18, 40, 65, 100]}}
  - {name: smokes, kind: boolean}
constraints:
  - not (age < 18 and smokes == true)
""",
    _mixed,
)


def _single(generator: np.random.Generator, n: int) -> dict[str, np.ndarray]:
    """Waiting times: a sharp peak and a long tail."""
    return {"wait": np.clip(generator.gamma(2.0, 6.0, n), 0, 64)}


SINGLE = Case(
    """
name: contract column
columns:
  - {name: wait, kind: real, minimum: 0, maximum: 64, bins: 64}
""",
    _single,
)


def _binary(generator: np.random.Generator, n: int) -> dict[str, np.ndarray]:
    """Three yes-or-no questions with different shares of yes."""
    return {
        "owns_home": generator.random(n) < 0.65,
        "has_car": generator.random(n) < 0.8,
        "volunteers": np.where(generator.random(n) < 0.1, "yes", "no").astype(object),
    }


BINARY = Case(
    """
name: contract answers
columns:
  - {name: owns_home, kind: boolean}
  - {name: has_car, kind: boolean}
  - {name: volunteers, kind: categorical, values: ["no", "yes"]}
""",
    _binary,
)

_SMALL = {"embedding_dim": 8, "generator_dim": (16,), "discriminator_dim": (16,)}

OPTIONS_OF: dict[str, dict[str, Any]] = {
    "dpctgan": {"epochs": 3, **_SMALL},
    "patectgan": {"epochs": 3, **_SMALL},
}
"""Options with which a mechanism is checked, where its defaults take minutes."""

VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "aim: no initialisation": ("aim", {"initialise": False}),
    "aim: old score": ("aim", {"score": "error"}),
    "aim: no annealing": ("aim", {"anneal": False, "rounds_per_column": 2.0}),
    "aim: Laplace": ("aim", {"noise": "laplace"}),
    "aim: relaxed": ("aim", {"estimation": "relaxed"}),
    "rap: published": ("rap", {"form": "published", "rounds": 4, "per_round": 5, "relaxed_rows": 60}),
    "gem: published": ("gem", {"form": "published", "rounds": 4, "batch": 60, "hidden": 16}),
}
"""Mechanisms with options that change what is looked at or paid: the heart of the contract holds for them as well."""


def made(name: str) -> Synthesizer:
    """Return a mechanism of the registry, or one of the variants, as it is checked."""
    method, options = VARIANTS.get(name, (name, OPTIONS_OF.get(name, {})))
    return create(method, **options)


@cache
def case_of(method: str) -> Case:
    """Return the table a mechanism is checked on: the first that its plan does not refuse."""
    synthesizer = made(method)
    refusals = []
    for case in (MIXED, BINARY, SINGLE):
        try:
            synthesizer.plan(case.schema, unit=Unit.add_remove(), budget=ApproxDP(1.0, 1e-6))
        except UnderstudyError as error:
            refusals.append(f"{case.schema.name}: {error}")
        else:
            return case
    raise AssertionError(
        f"{method} refuses every table of the contract. Add one that it serves to tests/contract/contract_cases.py.\n"
        + "\n".join(refusals)
    )
