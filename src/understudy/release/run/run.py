"""Running a release: private selection around attempts, recorded so that it can be resumed.

A *single* attempt charges the ledger step by step and costs what its steps cost. A *loop* of attempts is paid for
as a whole, once and before the first attempt, with what `selection_accounting` says it costs; its attempts run
on ledgers in memory that are limited to one attempt's budget and forgotten. The configuration of each attempt and the
coins of the loop come from the operating system's generator. How many attempts were made is told to nobody.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

from understudy.curator import require_measured
from understudy.curator.allowance import plain_addition
from understudy.data import require_folder
from understudy.errors import (
    BudgetError,
    BudgetExceeded,
    ConstraintError,
    LedgerMismatch,
    LookFailed,
    OutputError,
    UnderstudyError,
)
from understudy.ledgers import LedgerPlace
from understudy.mechanisms import Model, Progress, no_progress, software
from understudy.mechanisms.events import RegisterModel
from understudy.privacy import ApproxDP, Event, Ledger, PureDP
from understudy.privacy.events import ApproxEvent, PureEvent
from understudy.privacy.facts import check_facts
from understudy.privacy.invariants import NO_CONSENT, Consent, copy_invariants
from understudy.privacy.ledger.ledger import Entry
from understudy.privacy.noise.randomness import Randomness
from understudy.release.agreement import Agreement, agreed
from understudy.release.criteria.registry import packages_of
from understudy.release.regressions.fits import LinearFit
from understudy.release.result import Configuration, ReleaseFailure, ReleaseResult
from understudy.release.run.candidate import (
    Candidate,
    draw_candidate,
    fit_model,
    fit_models,
    register_model,
)
from understudy.release.run.judgement import Judgement, judge_all
from understudy.release.run.outcome import (
    judgement_to_plain,
    kept_register,
    recorded_outcome,
    release_ledger,
    room_needed,
)
from understudy.release.run.planning import prepare_release, usable_configurations
from understudy.release.run.state import State
from understudy.release.run.transform import Transformed, TransformedTables
from understudy.release.run.work import Source, Work
from understudy.release.selection.accounting import Attempts, GeometricAttempts, NegativeBinomialAttempts
from understudy.release.spec.budget import short
from understudy.release.spec.spec import Spec
from understudy.signatures import Statement

# ----------------------------------------------------------------------------------------
# The coins of private selection, from a cryptographic generator.

_DIGITS = 128
_MOST = 100_000_000


def uniform_index(count: int, randomness: Randomness) -> int:
    """Return a number below ``count``, each equally likely, by rejection: exact.

    Examples
    --------
    >>> from understudy.privacy import SeededRandomness
    >>> uniform_index(1, SeededRandomness(0))
    0
    """
    if count < 1:
        raise BudgetError("There is nothing to choose from.")
    bits = (count - 1).bit_length()
    while True:
        number = _bits(bits, randomness)
        if number < count:
            return number


def bernoulli(probability: float, randomness: Randomness) -> bool:
    """Return True with exactly the given probability.

    A double is a whole number of 2**-k, so that many random bits decide exactly.

    Examples
    --------
    >>> from understudy.privacy import SeededRandomness
    >>> bernoulli(0.0, SeededRandomness(0)), bernoulli(1.0, SeededRandomness(0))
    (False, True)
    """
    exact = Fraction(probability)
    return _bits(exact.denominator.bit_length() - 1, randomness) < exact.numerator


def draw_attempts(rule: Attempts, randomness: Randomness) -> int | None:
    """Return how many attempts a rule allows, or None if that is decided by coins along the way.

    The truncated negative binomial number is found by comparing a uniform number of 128 binary digits with
    sums of its probabilities. These are doubles, so each probability is off by some 1e-15 of itself.

    Examples
    --------
    >>> from understudy.privacy import SeededRandomness
    >>> draw_attempts(GeometricAttempts(0.1, most=30), SeededRandomness(0))
    30
    """
    if isinstance(rule, GeometricAttempts):
        return rule.most
    if not isinstance(rule, NegativeBinomialAttempts):
        return None
    target = _bits(_DIGITS, randomness) / 2.0**_DIGITS
    weight, below, k = rule.probability(1), 0.0, 1
    while k < _MOST:
        below += weight
        if target < below:
            return k
        weight *= (1 - rule.gamma) * (k + rule.eta) / (k + 1)
        if weight < 1e-300:
            return k
        k += 1
    return k


def _bits(count: int, randomness: Randomness) -> int:
    if count == 0:
        return 0
    size = (count + 7) // 8
    return int.from_bytes(randomness.bytes(size), "big") >> (8 * size - count)


def run_release(
    spec: Spec,
    *,
    ledger: Path,
    source: Any = None,
    restart: bool = False,
    progress: Progress = no_progress,
    randomness: Randomness | None = None,
    consent: Consent = NO_CONSENT,
    approvals: Sequence[Statement] = (),
) -> ReleaseResult | ReleaseFailure:
    """Run a release, or go on with one that was interrupted; see `Release`."""
    with Release.open(
        spec,
        ledger=ledger,
        source=source,
        restart=restart,
        randomness=randomness,
        consent=consent,
        approvals=approvals,
    ) as release:
        return release.run(progress=progress)


class Release(Work):
    """One release at work.

    Use `Release.open`, which locks the state, then `run`, publish what it returns, then `mark_published`.

    Privacy
    -------
    Everything that leaves is a function of what the ledger was charged for (single attempt) or of the outcome
    of a selection that was charged as a whole (loop). The proofs are where the parts are: fits in the
    mechanisms, criteria in :mod:`understudy.release.criteria`, their judgement in :mod:`understudy.release.run.judgement`, the
    selection in :mod:`understudy.release.selection.accounting`, interruptions in :mod:`understudy.release.run.state`.
    The parts outside the selection (number of rows, private regressions that attempts share) are released whatever the selection
    ends in and compose with it.

    Examples
    --------
    >>> import tempfile
    >>> spec = Spec.parse('''
    ... name: tiny
    ... source: {simulate: {table: toy, rows: 2000}}
    ... schema: {columns: [{name: smokes, kind: boolean}, {name: exercises, kind: boolean}]}
    ... unit: replace-one
    ... synthesizers: [{method: gaussian, options: {workload: all-2way}}]
    ... acceptance:
    ...   form: pass-only
    ...   epsilon: 0.5
    ...   criteria: [{name: cells, kind: max-marginal-error, threshold: 0.1}]
    ... selection: {rule: single}
    ... budget: {total: {epsilon: 1.5}, model: {epsilon: 1}}
    ... seed: 1
    ... ''')
    >>> import pandas as pd
    >>> table = pd.DataFrame({"smokes": [True, False] * 1000, "exercises": [True, True, False, False] * 500})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     result = run_release(spec, ledger=Path(folder) / "toy.ledger", source=table)
    >>> result
    ReleaseResult('tiny', 2,000 rows, epsilon=1.5 (pure differential privacy))
    """

    @classmethod
    @contextlib.contextmanager
    def open(
        cls,
        spec: Spec,
        *,
        ledger: Path | LedgerPlace,
        source: Any = None,
        restart: bool = False,
        randomness: Randomness | None = None,
        consent: Consent = NO_CONSENT,
        approvals: Sequence[Statement] = (),
    ) -> Iterator[Release]:
        """Open ledger and state of a release.

        Parameters
        ----------
        spec
            The specification.
        ledger
            Ledger file of the table, or its place; made with the specification's total if absent.
        source
            The private table, if it is not the file the specification names.
        restart
            Forget an earlier run of the same release. What it spent stays spent.
        randomness
            For tests only.
        consent
            What the owner of the table agrees to: other facts, or another exact number, than the ledger knows.
        approvals
            Who approved the specification. Those of this very version travel in the certificate.

        Raises
        ------
        ApprovalMissing
            If the specification requires an approval that is not among them; no ledger was made.
        SignatureError
            If it names the record of an agreement that is absent or was changed; no ledger was made.
        LedgerMismatch
            If the ledger belongs to another table or unit, or knows other facts and the owner did not agree. No record was read.
        """
        approved, agreement = agreed(spec, approvals)
        usable_configurations(spec)  # a specification without any is refused before a ledger is made
        place = ledger if isinstance(ledger, LedgerPlace) else LedgerPlace(Path(ledger).absolute())
        folder = State.folder_for(place.path, spec.name)
        with contextlib.ExitStack() as stack:
            opened = stack.enter_context(release_ledger(spec, place))
            if restart:  # a refusal must not forget the earlier run
                check_facts(opened, spec.facts, consent)
                require_measured(opened, spec.every_column)
                _require_room(spec, opened)
            state = stack.enter_context(
                State.opened(
                    folder, fingerprint=spec.fingerprint(), ledger_id=opened.ledger_id, restart=restart
                )
            )
            if state.get("outcome") is None:
                check_facts(opened, spec.facts, consent)
                require_measured(opened, spec.every_column)
            release = cls(spec, opened, state, source=source, randomness=randomness, consent=consent)
            release.approvals, release.agreement = approved.given, agreement
            yield release

    # ------------------------------------------------------------------ the whole

    approvals: tuple[Statement, ...] = ()
    agreement: Agreement | None = None

    @property
    def published(self) -> Path | None:
        """Where the release was published, if it was."""
        folder = self.state.get("published")
        return None if folder is None else Path(folder)

    def mark_published(self, folder: Path) -> None:
        """Record that the outcome was published; it is not published again."""
        self.state.record(published=str(Path(folder).absolute()))

    def run(self, *, progress: Progress = no_progress) -> ReleaseResult | ReleaseFailure:
        """Run the release to its outcome, going on where an earlier run stopped.

        Raises
        ------
        BudgetExceeded
            If the ledger has not enough left for the whole release; nothing was read or spent.
        DataError
            If the table cannot be read, does not fit, or is another one than an earlier run was charged for;
            nothing was spent on it.
        """
        configurations = usable_configurations(self.spec)
        if self.state.get("outcome") is None:
            self._start(configurations)
            progress("reading", 0.0)
            kind = TransformedTables if self.spec.parts else Transformed
            data = kind(self.spec, self._source, consent=self._consent)
            with contextlib.closing(data), self._failure_is_an_outcome(data):
                if self.spec.shares.single:
                    self._single(data, configurations, progress)
                else:
                    self._loop(data, configurations, progress)
        self._note_end()  # before anybody sees the outcome
        outcome = self._outcome(configurations)
        if not isinstance(outcome, ReleaseResult):
            return outcome
        given: dict[str, Any] = {"approvals": self.approvals, "agreement": self.agreement}
        parts = {table: replace(part, **given) for table, part in outcome.parts.items()}
        return replace(outcome, **given, parts=parts)

    @contextlib.contextmanager
    def _failure_is_an_outcome(self, data: Source) -> Iterator[None]:
        """End the release, as one that was not accepted, by an error that may depend on the records.

        Privacy
        -------
        An error after a charge is an outcome of the mechanism; that it happened is all that is told of it. Errors of the system (a full disk,
        an interruption, a database that was lost, files that were written to) and deliberate ones, whose messages hold public facts, are no outcomes: the
        release goes on from its journal. Whether the table is still there is asked without a look at a record; a look that was charged and failed is in the journal, and fails again.
        """
        try:
            yield
        except LookFailed as error:
            reason = str(error)
        except BudgetExceeded as error:
            if self.journal is None or not self.journal.lost_one(self.ledger, self.scope):
                raise
            raise self.journal.with_advice(error, self.ledger, self.scope) from None
        except (UnderstudyError, OSError, MemoryError):
            raise
        except Exception:
            if not self._charges():
                raise
            reason = (
                "The attempt ended in an error after it was paid for. What went wrong is not shown, because it may depend "
                "on the records."
            )
        else:
            return
        data.require_unchanged()  # outside the handler: what went wrong before is not handed on
        self.state.release_room()
        self.state.conclude({"passed": False, "reason": reason, "day": self.state.get("started")})
        self.state.forget_model()

    def _start(self, configurations: tuple[Configuration, ...]) -> None:
        """Before the first charge: is there room for all of it? Fix the public seed."""
        if not self._charges():
            _require_room(self.spec, self.ledger)
        if self.state.get("seed") is None:
            seed = secrets.randbits(62) if self.spec.seed is None else self.spec.seed
            self.state.record(seed=seed, started=_today())
        if not self._charges():
            prepare_release(self.spec, configurations)
            self.state.reserve_room(room_needed(self.spec))

    # ------------------------------------------------------------------ a single attempt

    def _single(self, data: Source, configurations: tuple[Configuration, ...], progress: Progress) -> None:
        state = self.state
        if state.get("configuration") is None:
            state.record(configuration=uniform_index(len(configurations), self._random))
        configuration = configurations[int(state.get("configuration"))]
        self._same_records(data, [configuration])
        self._state_facts(data, [configuration])
        rows = self._rows(data, configuration, configurations)
        self._count_people(data, configuration)
        baselines = self._baselines(data, (configuration,), rows)
        model = self._fitted(data, configuration, progress)
        progress("sampling", 1.0)
        try:
            candidate = self._candidate(configuration, model, rows)
        except ConstraintError as error:
            state.conclude({"passed": False, "reason": str(error), "day": _today()})
            state.forget_model()
            return
        progress("acceptance", 1.0)
        curators = self._curators(data, configuration, "judgement")
        judgement = judge_all(self.spec, candidate, curators, baselines)
        self._decide(candidate, judgement)
        if judgement.passed and isinstance(model, Model):
            self._accepted = {"model": model, "schema": candidate.schema}
        elif not judgement.passed:
            state.forget_model()

    def _fitted(
        self, data: Source, configuration: Configuration, progress: Progress
    ) -> Model | RegisterModel:
        """Return the model that was kept, or fit and keep it; of several tables of events a model for each, one after the other."""
        if isinstance(data, Transformed):
            return self._fitted_one(self.spec, data, configuration, "", progress)
        parts = zip(self.spec.parts.items(), data.parts, strict=True)
        models = {
            table: self._fitted_one(part, one, configuration, table, progress) for (table, part), one in parts
        }
        return register_model(self.spec, models)

    def _fitted_one(
        self, spec: Spec, data: Transformed, configuration: Configuration, table: str, progress: Progress
    ) -> Model:
        state, place = self.state, f"model/{table}" if table else "model"
        if state.model_file(table).exists():  # a model file is complete or absent
            if self.journal is not None:
                self.journal.skip(f"{self.scope}/{place}")
        else:
            curator = self._curator(data, configuration, place)
            fitted = fit_model(spec, configuration, curator, progress=progress)
            state.release_room()
            state.store_model(fitted, table)
        return Model.load(state.model_file(table))

    def _candidate(self, configuration: Configuration, model: Model | RegisterModel, rows: int) -> Candidate:
        """Return the candidate that was recorded, or draw and record it: no look at the table is involved."""
        state = self.state
        if state.get("sampled") is None:
            candidate = draw_candidate(
                self.spec, configuration, model, rows=rows, seed=int(state.get("seed"))
            )
            self._keep(candidate)
            state.record(sampled=dict(candidate.seconds))
            return candidate
        if isinstance(model, RegisterModel):
            return kept_register(self.spec, configuration, model, state)
        schema = replace(model.schema.as_read(), row_count=rows)
        if self.spec.two_levels:
            schema = self.spec.schema_for(configuration)
        return Candidate(
            configuration=configuration,
            schema=schema,
            types=state.load_candidate(schema.domain),
            provenance=model.provenance,
            seconds=state.get("sampled"),
        )

    def _keep(self, candidate: Candidate) -> None:
        """Keep the records of a candidate."""
        if not candidate.parts:
            self.state.store_candidate(candidate.types)
        for table, part in candidate.parts.items():
            self.state.store_candidate(part.types, table)

    # ------------------------------------------------------------------ a loop of attempts

    def _loop(self, data: Source, configurations: tuple[Configuration, ...], progress: Progress) -> None:
        """Make attempts until one is accepted or the selection ends, charged as a whole before the first.

        Privacy
        -------
        In: private. Out: one accepted candidate, or that there was none; once for each charge (`_require_same_selection`). Given the table, attempts are independent and alike: a configuration
        drawn uniformly, a fit, a candidate from a public seed, a judgement, on a ledger of their own that holds them to
        ``shares.attempt``. An attempt that fails, for whatever reason, counts as rejected and leaves nothing behind. How many may be made
        is drawn without looking at the table, how many were made is not told. That is the selection whose cost
        :mod:`understudy.release.selection.accounting` proves and ``shares.selection_event`` charges. The number of rows, and private
        regressions that attempts share, are charged beside it.
        """
        state, rule = self.state, self.spec.attempts
        programs = software(
            (item.method for item in configurations), packages_of(item.kind for item in self.spec.criteria)
        )
        self._require_same_selection(programs)
        self._same_records(data, configurations)  # every transformation is read before anything is spent
        self._state_facts(data, configurations)
        rows = self._rows(data, configurations[0], configurations)
        self._count_people(data, configurations[0])
        baselines = self._baselines(data, configurations, rows)
        self._pay_selection(programs)
        progress("searching", 0.0)
        while True:
            configuration = configurations[uniform_index(len(configurations), self._random)]
            found = self._attempt(data, configuration, rows, baselines)
            if found is not None:
                state.release_room()
                candidate, judgement, model = found
                for table, one in model.models.items() if isinstance(model, RegisterModel) else [("", model)]:
                    state.store_model(one, table)
                self._keep(candidate)
                self._decide(candidate, judgement)
                return
            data.require_unchanged()  # or the attempt was interrupted, and another is made in its place later
            selecting = state.get("selecting")
            left = selecting["left"]
            left = None if left is None else left - 1
            stop = isinstance(rule, GeometricAttempts) and bernoulli(rule.gamma, self._random)
            if stop or left == 0:
                state.conclude({"passed": False, "day": state.get("started")})
                state.forget_model()
                return
            state.record(selecting=selecting | {"left": left})

    def _selection_charge(self) -> Entry | None:
        """Return the entry of the ledger that paid for the selection."""
        place = f"{self.scope}/selection"
        return next((e for e in self.ledger.entries() if e.event is not None and e.scope == place), None)

    def _selection_end(self) -> Entry | None:
        """Return the entry of the ledger that says that the selection ended."""
        place = f"{self.scope}/selection"
        return next(
            (e for e in self.ledger.entries() if e.scope == place and e.purpose.startswith(_ENDED)), None
        )

    def _require_same_selection(self, programs: str) -> None:
        """Refuse to go on with a selection other than the one that was charged; nothing is drawn or charged.

        Privacy
        -------
        One charge pays for one selection of attempts that are alike, and for one outcome. So the event has to be the one that was charged
        (another one comes with other parts of an attempt, such as regressions fitted inside it), all attempts have to be made by
        the same programs, and the state has to be the one that the selection was paid with, which is not older than its outcome: the
        entry of the ledger names it by the digest of a random name, and a second entry says that the selection ended. A state that is older than
        some attempts, and no older than the charge, makes them again, as after an interruption (:mod:`understudy.release.run.state`).
        """
        entry, selecting = self._selection_charge(), self.state.get("selecting")
        if entry is None:
            return  # no attempt was made
        again = " Nothing was drawn or charged. Or start anew (--restart), which is charged anew."
        if not _pays(entry.event, self.spec.shares.selection_event):
            raise LedgerMismatch(
                "The ledger was charged for another selection than this release now is: its parts or their accounting are not those of the "
                f"version of Understudy that began it. Go on with that version.{again}"
            )
        named = _STATE in entry.purpose
        restored = "The state of this release is older than its ledger: "
        if named and (selecting is None or not entry.purpose.endswith(_STATE + _digest(selecting["name"]))):
            raise LedgerMismatch(
                f"{restored}the selection that was charged began with another state. Put the latest state back.{again}"
            )
        if self._selection_end() is not None:
            raise LedgerMismatch(
                f"{restored}its selection has ended, and one charge pays for one outcome. Put the latest state back.{again}"
            )
        if selecting is None:  # version 0.1.0 recorded it after the charge and before the first attempt
            return
        most = getattr(self.spec.attempts, "most", None)
        unused = most is not None and selecting["left"] == most
        begun_by = selecting.get("software", "understudy 0.1.0 or an earlier version")
        if begun_by != programs and not unused:
            raise LedgerMismatch(
                f"Attempts of this selection were made by {begun_by}, and this is {programs}. The charge pays for attempts that are all "
                f"alike. Go on with the former.{again}"
            )

    def _pay_selection(self, programs: str) -> None:
        """Charge for the whole selection unless that was done, after what is needed to go on with it is recorded."""
        entry, rule, selecting = self._selection_charge(), self.spec.attempts, self.state.get("selecting")
        if entry is None or selecting is None:  # no attempt was made
            name = secrets.token_hex(16)
            self.state.record(
                selecting={
                    "left": draw_attempts(rule, self._random),
                    "name": name,
                    "software": programs,
                }
            )
            if entry is None:
                self.ledger.charge(
                    self.spec.shares.selection_event,
                    purpose=f"private selection: {rule.describe()}{_STATE}{_digest(name)}",
                    scope=f"{self.scope}/selection",
                )
        elif selecting.get("software") != programs:  # of another version, which made no attempt
            self.state.record(selecting=selecting | {"software": programs})

    def _note_end(self) -> None:
        """Write into the ledger that the selection ended, once its outcome is recorded, or check that it ended in this outcome.

        Privacy
        -------
        The entry is the same whatever the outcome, and carries the time of the charge: how long the selection took would say how many attempts it made.
        """
        entry = self._selection_charge()
        if entry is None or _STATE not in entry.purpose:  # none, or paid for by version 0.1.0
            return
        said, end = _ENDED + _digest(self.state.get("outcome")["name"]), self._selection_end()
        if end is None:
            self.ledger.note(said, scope=f"{self.scope}/selection", as_of=entry)
        elif end.purpose != said:
            raise LedgerMismatch(
                "The selection of this release ended in another outcome than the one in its state, and one charge pays for one. "
                "Put the latest state back."
            )

    def _attempt(
        self,
        data: Source,
        configuration: Configuration,
        rows: int,
        baselines: dict[tuple[str, ...], LinearFit],
    ) -> tuple[Candidate, Judgement, Model | RegisterModel] | None:
        """Make one attempt on a ledger of its own; None if it is rejected, for whatever reason."""
        shares = self.spec.shares
        with Ledger.in_memory(budget=shares.attempt, unit=self.spec.unit, table=self.ledger.table) as ledger:
            copy_invariants(self._invariants, ledger)
            try:
                parts = (data,) if isinstance(data, Transformed) else data.parts
                curators = [part.curator(configuration, ledger, randomness=self._given) for part in parts]
                model = fit_models(self.spec, configuration, curators, progress=no_progress)
                seed = int(self.state.get("seed"))
                candidate = draw_candidate(self.spec, configuration, model, rows=rows, seed=seed)
                judgement = judge_all(self.spec, candidate, curators, baselines)
            except Exception:
                # whatever went wrong may depend on the records: to tell it apart from a rejection, or to make
                # the attempt again, would be an output that was not paid for
                return None
        return (candidate, judgement, model) if judgement.passed else None

    # ------------------------------------------------------------------ outcomes

    def _decide(self, candidate: Candidate, judgement: Judgement) -> None:
        """Record the decision. The candidate is on the disk already, before anything says that it was accepted."""
        outcome: dict[str, Any] = {
            "passed": judgement.passed,
            # how long a loop took says how many attempts it made, and nobody paid for that
            "day": _today() if self.spec.shares.single else self.state.get("started"),
            "judgement": judgement_to_plain(judgement),
            "rows": candidate.types.rows,
            "transformations": dict(candidate.configuration.transformations),
            "configuration": candidate.configuration.name,
            "provenance": candidate.provenance.to_dict(),
            "seconds": dict(candidate.seconds),
            "lost": [] if self.journal is None else self.journal.lost(self.ledger),
        }
        self.state.conclude(outcome)

    def _outcome(self, configurations: tuple[Configuration, ...]) -> ReleaseResult | ReleaseFailure:
        """Build the outcome from what was recorded."""
        return recorded_outcome(
            self.spec, self.ledger, self.state, configurations, scope=self.scope, **self._accepted
        )


def require_free(folder: Path) -> None:
    """Refuse a folder that exists or cannot be made, before anything is spent."""
    if os.path.lexists(folder):
        raise OutputError(
            f"The folder {str(folder)!r} exists already. Choose another for the release (--out)."
        )
    above = next(place for place in Path(os.path.abspath(folder)).parents if os.path.lexists(place))
    require_folder(above, what="release")


_STATE, _ENDED = "; state ", "private selection ended; outcome "


def _digest(name: str) -> str:
    """Return what stands for a random name in the ledger."""
    return hashlib.sha256(name.encode()).hexdigest()[:32]


def _pays(charged: Event | None, needed: Event) -> bool:
    """Say whether a charge is that of a selection, up to the rounding of numbers that are found numerically, and no less."""
    if not isinstance(charged, PureEvent | ApproxEvent) or type(charged) is not type(needed):
        return False
    pairs = [(charged.to_dict()[key], value) for key, value in needed.to_dict().items() if key != "kind"]
    return all(paid * (1 - 1e-9) <= value <= paid for paid, value in pairs)


def _today() -> str:
    return datetime.now(UTC).date().isoformat()


def _require_room(spec: Spec, ledger: Ledger) -> None:
    """Refuse a release that the ledger cannot pay for as a whole."""
    shares, rule = spec.shares, ledger.rule
    undivided = [
        item.shares.model
        for item in spec.parts.values()
        if not isinstance(item.shares.model, PureDP | ApproxDP)
    ]
    if shares.single and undivided and plain_addition(ledger):
        raise BudgetError(
            f"The models of this release have {short(undivided[0])} each, without a delta of their own, and the ledger of {ledger.table!r} adds up epsilons and deltas plainly: the first "
            "model would take all of its delta. Nothing was spent. Use a ledger of Gaussian accounting (understudy ledger create makes one), or give budget.model an epsilon alone."
        )
    if all(shares.admitted(rule, ledger.spending)):
        return
    other = (
        ""
        if shares.accounting == rule.main.name
        else f" Its parts fit by {shares.accounting} accounting, and this ledger keeps {rule.main.name} accounting."
    )
    raise BudgetExceeded(
        f"The release needs {shares.promise.describe()}; the ledger of {ledger.table!r} has "
        f"{ledger.accounting.describe_left(ledger.remaining, ledger.total)} left of its "
        f"{ledger.budget.describe()}. Nothing was spent.{other} Ask for less, or agree on a larger total with the owner of the table, who can raise it (understudy ledger total).",
        requested=shares.used * ledger.total,
        remaining=ledger.remaining,
        accounting=ledger.accounting.name,
    )
