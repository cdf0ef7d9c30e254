"""The two functions SDGym asks of a synthesizer, so that its benchmarks can run ours.

>>> from sdgym import create_single_table_synthesizer                              # doctest: +SKIP
>>> from understudy.adapters import get_trained_synthesizer, sample_from_synthesizer
>>> create_single_table_synthesizer("Understudy", get_trained_synthesizer, sample_from_synthesizer)  # doctest: +SKIP
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np

from understudy._deprecation import rows_or_n
from understudy._html import html_table
from understudy.data import draft_schema
from understudy.errors import WorkloadError
from understudy.ledgers import LedgerPlace, ledger_at
from understudy.marginals import Workload
from understudy.mechanisms import Model, Synthesizer
from understudy.privacy import Budget, Unit
from understudy.privacy.invariants import NO_CONSENT, Consent
from understudy.schema import Schema
from understudy.workflow import AUTO, Fit, Payment, Unfinished, mechanism_for, plan_synthesis
from understudy.workflow.public_data import Prior
from understudy.workflow.synthesis import described_by, reason_for

if TYPE_CHECKING:
    import pandas as pd

# ----------------------------------------------------------------------------------------
# A mechanism with ``fit``, ``sample``, ``get_params`` and ``set_params``, as people know it from scikit-learn.


class TableSynthesizer:
    """Fit a private model to a frame and draw rows from it.

    Parameters
    ----------
    method
        Name of a mechanism; see ``understudy methods``. By default one is chosen from the schema, the unit and the budget.
    schema
        What is public about the table: a `Schema`, or the path of a schema file. There is no default: a domain is never read from the records for free. With ``discover`` it may be left out, or declare some columns only.
    unit
        Who is protected: ``"add-remove"``, ``"replace-one"``, or, for people with several rows, a `Unit` or a mapping with ``relation``, ``id_column`` and ``max_rows``.
    epsilon, delta, rho, mu
        The budget, exactly one kind of it: epsilon (with or without delta), rho, or mu.
    workload
        Marginals that matter, as text (``"all-3way"``) or as a `Workload`, for mechanisms that take one.
    target
        A column that will be predicted from the others, instead of ``workload``.
    options
        Further options of the mechanism.
    prior
        Public data with the same columns: a bundle, a model or a public table.
    time_limit
        About how many seconds the rounds of the fit may take.
    ledger
        Ledger file of the table, or ``"default"`` for the one that belongs to it: beside a file, in a folder of yours for a
        frame, which is known again by its content. Without one (or with ``"memory"``), a ledger in memory lives as long as a fit: fitting
        twice then promises the budget twice, which is fine for trying things out and for nothing else.
    consent
        What the owner of the table agrees to: other facts, or another exact number of rows, than the ledger knows.
    unfinished
        What to do about another fit on the ledger that was interrupted: ``"refuse"``, ``"keep"`` its paid answers for later, or
        ``"drop"`` them. A fit that was interrupted itself goes on when it is called again, and pays for nothing twice.
    discover
        A share of the budget, such as 0.1, with which everything about the columns that no schema declares is learnt: with noise, and charged to the same
        ledger (:mod:`understudy.discovery`); ``"auto:1000"`` chooses the share for about 1,000 rows (public, or your guess). The names of the columns are public. The schema that was found is that of ``model_``.
    numbers_only
        With ``discover`` and a budget without a delta, which finds no texts: say that numbers, dates and truth words are all that is wanted.

    Attributes
    ----------
    model_
        The fitted model, after :meth:`fit`.
    feature_names_in_, n_features_in_
        The columns of the schema and their number, after :meth:`fit`, as scikit-learn calls them.

    Notes
    -----
    It can be cloned, be the last step of a scikit-learn ``Pipeline``, and have its parameters set there; scikit-learn itself is not needed. Every fit spends
    a budget. There is no ``score``, because a score would be an exact number about the records: a search over parameters would need one, and
    would pay for each of its fits.

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
        method: str = AUTO,
        *,
        schema: Schema | str | PathLike[str] | None = None,
        unit: Unit | str | Mapping[str, Any] | None = None,
        epsilon: float | None = None,
        delta: float | None = None,
        rho: float | None = None,
        mu: float | None = None,
        workload: str | Workload | None = None,
        target: str | None = None,
        options: Mapping[str, Any] | None = None,
        prior: Prior | None = None,
        time_limit: float | None = None,
        ledger: str | PathLike[str] | None = None,
        consent: Consent | None = None,
        unfinished: Unfinished = "refuse",
        discover: float | str | None = None,
        numbers_only: bool = False,
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
        self.target = target
        self.options = options
        self.prior = prior
        self.time_limit = time_limit
        self.ledger = ledger
        self.consent = consent
        self.unfinished = unfinished
        self.discover = discover
        self.numbers_only = numbers_only

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

    def _ledger(self) -> LedgerPlace | Literal["memory"] | None:
        """Return the ledger that pays, as a payment names it; a path is taken as it is, whatever the ledger calls its table."""
        if self.ledger is None or self.ledger == "memory":
            return "memory"
        return None if self.ledger == "default" else ledger_at(Path(self.ledger))

    # ------------------------------------------------------------------ fitting

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit the mechanism to a frame, a file or anything else `read_table` takes.

        Parameters
        ----------
        X
            The table.
        y
            One more column of it, as scikit-learn hands a target over: a named pandas series that the schema declares. It is synthesized like the others.

        Privacy
        -------
        In: private. Out: a public model, paid for by the ledger: :meth:`Synthesizer.fit`.
        """
        if self.schema is None and self.discover is None:
            raise WorkloadError(
                "A schema must say what is public about the table before it is read; give schema=... "
                "(draft one with `understudy schema draft`), or learn one with a share of the budget: discover=0.1, or by itself "
                "understudy.workflow.discover_schema(table, unit=..., epsilon=..., delta=..., share=0.1)."
            )
        given = None if self.schema is None else Schema.of(self.schema)
        if y is not None:
            X = self._joined(X, y, given)
        budget = Budget.of(epsilon=self.epsilon, delta=self.delta, rho=self.rho, mu=self.mu)
        unit = Unit.of(self.unit)
        described, steps = described_by(
            X, given, self.discover, unit=unit, **({"numbers_only": True} if self.numbers_only else {})
        )
        asked: dict[str, Any] = {
            "workload": self.workload,
            "target": self.target,
            "unit": unit,
            "budget": budget,
            "prior": self.prior,
        }

        def mechanism(schema: Schema) -> Synthesizer:
            return mechanism_for(
                self.method, schema, options=self.options, time_limit=self.time_limit, **asked
            )

        fit = Fit(
            table=X,
            schema=described,
            synthesizer=mechanism(described),
            unit=unit,
            budget=budget,
            steps=steps,
            rebuild=mechanism,
            reason=reason_for(self.method, entity=None, **asked),
        )
        payment = Payment(
            ledger=self._ledger(), consent=self.consent or NO_CONSENT, unfinished=self.unfinished
        )
        self.model_ = plan_synthesis(fit, payment=payment).run().model
        names = self.model_.schema.names
        self.feature_names_in_ = np.array(names, dtype=object)
        self.n_features_in_ = len(names)
        return self

    def _joined(self, X: Any, y: Any, schema: Schema | None) -> Any:
        """Return the table with one more column."""
        name = getattr(y, "name", None)
        declared = self.discover is not None or (schema is not None and name in schema.names)
        if not isinstance(name, str) or not declared or not hasattr(X, "assign") or name in X.columns:
            raise WorkloadError(
                "y is taken as one more column: give X as a pandas frame and y as a series whose name the schema declares and X lacks, or leave y out."
            )
        if len(X) != len(y) or not X.index.equals(y.index):
            raise WorkloadError("X and y must have the same index.")
        return X.assign(**{str(name): y})

    def sample(
        self,
        rows: int | None = None,
        *,
        where: str | None = None,
        given: pd.DataFrame | None = None,
        seed: int | None = None,
        n: int | None = None,
    ) -> pd.DataFrame:
        """Draw rows from the fitted model; free, as often as wanted. ``where`` and ``given`` as in `Model.sample`; ``n`` is the deprecated word for ``rows``."""
        model: Model | None = getattr(self, "model_", None)
        if model is None:
            raise _not_fitted()
        rows = rows_or_n(rows, n, where="TableSynthesizer.sample")
        return model.sample(rows, where=where, given=given, seed=seed)

    # ------------------------------------------------------------------ what scikit-learn asks

    def __sklearn_is_fitted__(self) -> bool:
        return getattr(self, "model_", None) is not None

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import InputTags, Tags, TargetTags

        return Tags(
            estimator_type=None,
            target_tags=TargetTags(required=False),
            input_tags=InputTags(two_d_array=False, categorical=True, string=True, allow_nan=True),
            non_deterministic=True,  # noise takes no seed
        )

    def _repr_html_(self) -> str:
        shown = {name: value for name, value in self.get_params().items() if value is not None}
        model: Model | None = getattr(self, "model_", None)
        note = "Not fitted yet." if model is None else model.provenance.guarantee()
        return html_table("TableSynthesizer", ("parameter", "value"), list(shown.items()), note=note)

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


def _not_fitted() -> WorkloadError:
    """Return the error of a synthesizer without a model: scikit-learn's as well, where that is installed."""
    message = "There is no model yet; call fit first."
    try:
        from sklearn.exceptions import NotFittedError
    except ImportError:
        return WorkloadError(message)

    members = {"__doc__": "A synthesizer that was not fitted.", "__reduce__": lambda _: (_not_fitted, ())}
    both: type[WorkloadError] = type(
        "NotFitted", (WorkloadError, NotFittedError), members
    )  # has the code of the first
    return both(message)


def sample_from_synthesizer(synthesizer: TableSynthesizer, n_samples: int) -> pd.DataFrame:
    """Draw rows from a fitted mechanism."""
    return synthesizer.sample(n_samples)
