"""The two functions SDGym asks of a synthesizer, so that its benchmarks can run ours.

>>> from sdgym import create_single_table_synthesizer                              # doctest: +SKIP
>>> from understudy.adapters import get_trained_synthesizer, sample_from_synthesizer
>>> create_single_table_synthesizer("Understudy", get_trained_synthesizer, sample_from_synthesizer)  # doctest: +SKIP
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from contextlib import AbstractContextManager
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from understudy.data import draft_schema, read_table
from understudy.data.identity import table_file
from understudy.errors import WorkloadError
from understudy.ledgers import LedgerPlace, find_ledger
from understudy.marginals import Workload, parse_workload
from understudy.mechanisms import Model, create
from understudy.mechanisms import method as method_of
from understudy.privacy import Budget, Ledger, Unit
from understudy.privacy.invariants import NO_CONSENT, Consent
from understudy.schema import Schema
from understudy.workflow import Unfinished, paid_work, table_facts, work_facts

if TYPE_CHECKING:
    import pandas as pd

# ----------------------------------------------------------------------------------------
# A mechanism with ``fit``, ``sample``, ``get_params`` and ``set_params``, as people know it from scikit-learn.


class TableSynthesizer:
    """Fit a private model to a frame and draw rows from it.

    Parameters
    ----------
    method
        Name of a mechanism; see ``understudy methods``.
    schema
        What is public about the table. There is no default: a domain is never read from the records.
    unit
        Who is protected: ``"add-remove"``, ``"replace-one"``, or a `Unit` (for people with several rows).
    epsilon, delta, rho, mu
        The budget, exactly one kind of it: epsilon (with or without delta), rho, or mu.
    workload
        Marginals that matter, as text (``"all-3way"``) or as a `Workload`, for mechanisms that take one.
    options
        Further options of the mechanism.
    ledger
        Ledger file of the table, or ``"default"`` for the one that belongs to it: beside a file, in a folder of yours for a
        frame, which is known again by its content. Without one, a ledger in memory lives as long as this object: fitting
        twice then promises the budget twice, which is fine for trying things out and for nothing else.
    consent
        What the owner of the table agrees to: other facts, or another exact number of rows, than the ledger knows.
    unfinished
        What to do about another fit on the ledger that was interrupted: ``"refuse"``, ``"keep"`` its paid answers for later, or
        ``"drop"`` them. A fit that was interrupted itself goes on when it is called again, and pays for nothing twice.

    Attributes
    ----------
    model_
        The fitted model, after :meth:`fit`.

    Examples
    --------
    >>> from understudy import datasets
    >>> frame, schema = datasets.load("toy", 500, seed=1)
    >>> made = TableSynthesizer("independent", schema=schema, unit="add-remove", epsilon=1.0).fit(frame)
    >>> made.sample(3, seed=1).shape
    (3, 4)
    """

    def __init__(
        self,
        method: str = "aim",
        *,
        schema: Schema | None = None,
        unit: Unit | str | None = None,
        epsilon: float | None = None,
        delta: float | None = None,
        rho: float | None = None,
        mu: float | None = None,
        workload: str | Workload | None = None,
        options: Mapping[str, Any] | None = None,
        ledger: str | PathLike[str] | None = None,
        consent: Consent | None = None,
        unfinished: Unfinished = "refuse",
    ) -> None:
        # as scikit-learn wants it: parameters are stored as given and checked when fitting
        self.method = method
        self.schema = schema
        self.unit = unit
        self.epsilon = epsilon
        self.delta = delta
        self.rho = rho
        self.mu = mu
        self.workload = workload
        self.options = options
        self.ledger = ledger
        self.consent = consent
        self.unfinished = unfinished

    # ------------------------------------------------------------------ parameters

    @classmethod
    def _names(cls) -> list[str]:
        return [name for name in inspect.signature(cls.__init__).parameters if name != "self"]

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name."""
        return {name: getattr(self, name) for name in self._names()}

    def set_params(self, **params: Any) -> Self:
        """Change parameters by name."""
        for name, value in params.items():
            if name not in self._names():
                raise WorkloadError(f"No parameter named {name!r}. Known: {', '.join(self._names())}.")
            setattr(self, name, value)
        return self

    # ------------------------------------------------------------------ fitting

    def fit(self, X: Any, y: None = None) -> Self:
        """Fit the mechanism to a frame, a file or anything else `read_table` takes.

        Privacy
        -------
        In: private. Out: a public model, paid for by the ledger: :meth:`Synthesizer.fit`.
        """
        if self.schema is None:
            raise WorkloadError(
                "A schema must say what is public about the table before it is read; give schema=... "
                "(draft one with `understudy schema draft`)."
            )
        budget = Budget.of(epsilon=self.epsilon, delta=self.delta, rho=self.rho, mu=self.mu)
        unit = Unit.of(self.unit)
        options = dict(self.options or {})
        if self.workload is not None:
            if not method_of(self.method).takes_workload:
                raise WorkloadError(f"{self.method} does not take a workload; leave it out.")
            text = self.workload
            options["workload"] = parse_workload(self.schema.domain, text) if isinstance(text, str) else text
        synthesizer = create(self.method, **options)
        synthesizer.prepare(self.schema, unit=unit, budget=budget)
        reserve = synthesizer.reserve(self.schema, budget)
        book: AbstractContextManager[Ledger]
        if self.ledger is None:
            book = Ledger.in_memory(budget=budget, unit=unit, table="table", approximate_delta=reserve)
        else:
            path = None if self.ledger == "default" else Path(self.ledger)
            file = table_file(X)
            name = "table" if file is None else file.name
            if path is None:
                place = find_ledger(X, name=name)
            else:  # a path is taken as it is, whatever the ledger calls its table
                place = LedgerPlace(path.absolute(), _same_table=path.exists())
            book = place.opened(
                budget=budget,
                unit=unit,
                table=name,
                named=False,
                approximate_delta=reserve,
                advice="Use the ledger of this table, or another file for another table.",
            )
        facts = work_facts(
            synthesizer, schema_fingerprint=self.schema.fingerprint(), unit=unit, budget=budget
        )
        owner, consent = table_facts(self.schema, unit=unit), self.consent or NO_CONSENT
        with (
            book as paying,
            paid_work(paying, facts, unfinished=self.unfinished, owner=owner, consent=consent) as work,
        ):
            table = read_table(X, self.schema, id_column=unit.id_column)
            self.model_ = work.fit(synthesizer, table, unit=unit, budget=budget)
            work.done()
        return self

    def sample(self, n: int | None = None, *, seed: int | None = None) -> pd.DataFrame:
        """Draw rows from the fitted model; free, as often as wanted."""
        model: Model | None = getattr(self, "model_", None)
        if model is None:
            raise WorkloadError("There is no model yet; call fit first.")
        return model.sample(n, seed=seed)

    def __repr__(self) -> str:
        shown = {name: value for name, value in self.get_params().items() if value is not None}
        return f"TableSynthesizer({', '.join(f'{name}={value!r}' for name, value in shown.items())})"


DEFAULTS: dict[str, Any] = {"method": "aim", "unit": "add-remove", "epsilon": 1.0, "delta": 1e-9}
"""What a benchmark gets when it says nothing."""


def get_trained_synthesizer(data: pd.DataFrame, metadata: Any = None, **params: Any) -> TableSynthesizer:
    """Fit a mechanism to a benchmark table.

    Parameters
    ----------
    data
        The table. SDGym's metadata has no domain, so it is drafted from the table and declared public here,
        which is right for public benchmark tables and wrong for any other: never use this on private records.
    metadata
        As SDGym passes it; not needed.
    params
        Parameters of `TableSynthesizer` that replace :data:`DEFAULTS`; a ``schema`` replaces the draft.
    """
    given = {**DEFAULTS, **params}
    if "rho" in params or "mu" in params:
        given = {**given, "epsilon": None, "delta": None}
    schema = given.pop("schema", None) or draft_schema(data, name="benchmark", declare_public=True)
    return TableSynthesizer(schema=schema, **given).fit(data)


def sample_from_synthesizer(synthesizer: TableSynthesizer, n_samples: int) -> pd.DataFrame:
    """Draw rows from a fitted mechanism."""
    return synthesizer.sample(n_samples)
