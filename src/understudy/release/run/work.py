"""What every release does whatever its selection: remember charges, know its table, and pay for the parts outside."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from understudy.curator import Curator
from understudy.errors import DataError
from understudy.inference.people import STARTS
from understudy.privacy import Laplace, Ledger, PureDP, SystemRandomness
from understudy.privacy.accounting.accounting import PURE
from understudy.privacy.facts import remember_facts
from understudy.privacy.invariants import NO_CONSENT, Consent
from understudy.privacy.ledger.ledger import Invariant
from understudy.privacy.noise.randomness import Randomness
from understudy.release.projection import require_room
from understudy.release.regressions.fits import LinearFit
from understudy.release.result import Configuration
from understudy.release.run.judgement import fit_baseline, regressions_for
from understudy.release.run.outcome import fit_from_plain
from understudy.release.run.state import State
from understudy.release.run.transform import Transformed, TransformedTables
from understudy.release.spec.spec import Spec

__all__ = ["Source", "Work"]

Source = Transformed | TransformedTables
"""The private table in each of its transformations, or entities with several tables of events."""


class Work:
    """A specification at work on a ledger, with what was recorded so far.

    Privacy
    -------
    The number of rows, counts of people by their number of rows and the private regressions that all attempts share are charged to the ledger before they are drawn and released
    whatever the selection ends in. Their answers are journalled; what was charged for and is not in the journal is charged again before it is
    drawn again.
    """

    def __init__(
        self,
        spec: Spec,
        ledger: Ledger,
        state: State,
        *,
        source: Any,
        randomness: Randomness | None,
        consent: Consent = NO_CONSENT,
    ) -> None:
        self.spec = spec
        self.ledger = ledger
        self.state = state
        if spec.shares.shared is not None and self._charges("baseline 0"):  # begun by version 0.1
            self.spec = replace(spec, shares=spec.shares.shared)
        self._source = source
        self._random: Randomness = SystemRandomness() if randomness is None else randomness
        self._given = randomness
        self._consent = consent
        self._invariants: tuple[Invariant, ...] = ()
        self._accepted: dict[str, Any] = {}  # model and schema of the candidate, once it is accepted
        self.journal = state.journal(ledger) if state.get("outcome") is None else None

    @property
    def scope(self) -> str:
        """What the charges of this release carry in the ledger."""
        return f"release {self.spec.name} {self.state.release_id}"

    def _curators(self, data: Source, configuration: Configuration, place: str) -> list[Curator]:
        """Return the curator of one part of the release; of several tables of events one for each."""
        if isinstance(data, Transformed):
            return [self._curator(data, configuration, place)]
        return [
            self._curator(part, configuration, f"{place}/{table}")
            for table, part in zip(self.spec.parts, data.parts, strict=True)
        ]

    # ------------------------------------------------------------------ what happened before

    def _charges(self, place: str = "") -> bool:
        """Say whether the ledger was charged for a part of this release."""
        start = f"{self.scope}/{place}" if place else self.scope
        return any(
            entry.event is not None and (entry.scope + "/").startswith(start + ("/" if place else ""))
            for entry in self.ledger.entries()
        )

    def _curator(self, data: Source, configuration: Configuration, place: str) -> Curator:
        """Return the curator of one part of the release, whose answers are journalled."""
        return data.curator(
            configuration,
            self.ledger,
            scope=f"{self.scope}/{place}",
            journal=self.journal,
            randomness=self._given,
        )

    def _same_records(self, data: Source, configurations: Iterable[Configuration]) -> None:
        """Refuse a table that is not the one that an earlier run looked at.

        Privacy
        -------
        The cost of a selection is that of attempts on one table; attempts on two of them, or a model of one judged by
        another, were not paid for. Which rows a person keeps may differ between looks: every curator draws them anew,
        and each look is private for every choice.
        """
        known = self.state.get("records")
        if known is None or not self._charges():
            key = secrets.token_bytes(32)
            digest = data.digest(configurations, key)
            self.state.record(records={"key": key.hex(), "digest": digest})
        elif data.digest(configurations, bytes.fromhex(known["key"])) != known["digest"]:
            raise DataError(
                "The table is not the one that this release began with: records were added, removed or changed since. "
                "Nothing was drawn from it. Put the table back, or start anew (--restart), which is charged anew."
            )

    def _state_facts(self, data: Source, configurations: Iterable[Configuration]) -> None:
        """Write into the ledger what the promise is about, before the first charge: exact numbers of rows, and the facts."""
        for part in _parts(data):
            for configuration in configurations:
                part.curator(configuration, self.ledger, scope=self.scope)
        remember_facts(self.ledger, self.spec.facts, self._consent)
        self._invariants = self.ledger.invariants()

    # ------------------------------------------------------------------ paid for once

    def _rows(
        self, data: Source, configuration: Configuration, configurations: tuple[Configuration, ...]
    ) -> int:
        """Return the number of rows to release; measure it if it is to be paid for.

        A number that a projection could not work with ends the release here, before anything else is spent.
        """
        kind = self.spec.row_count.kind
        recorded = self.state.get("rows")  # by version 0.1, which had no journal
        if kind == "measured" and recorded is None:
            curator = self._curator(data, configuration, "rows")
            epsilon = self.spec.shares.rows
            noise = Laplace(PURE.laplace_scale(epsilon, float(self.spec.unit.max_rows)))
            limited = curator.within(PureDP(epsilon), scope="count")
            noisy = limited.measure(limited.counts(()), noise=noise, purpose="measure the number of rows")
            recorded = max(1, round(float(noisy.values)))
        if kind == "measured":
            data.rows = int(recorded)
        rows = data.curator(configuration, self.ledger, scope=self.scope).rows.number
        if rows is None or rows < 1:
            raise DataError("The table has no rows to release.")
        require_room(rows, self.spec.least_rows(configurations))
        return rows

    def _count_people(self, data: Source, configuration: Configuration) -> None:
        """Count people by their number of rows, where an estimate of what the cut leaves out is to be paid for; once for a release.

        Privacy
        -------
        In: private. Out: releasable, kept in the state. See :meth:`understudy.curator.Curator.people_by_rows`.
        """
        epsilon = self.spec.shares.people
        if not epsilon:
            return
        limited = self._curator(data, configuration, "people").within(PureDP(epsilon), scope="count")
        sealed = limited.people_by_rows(STARTS)
        noise = Laplace(PURE.laplace_scale(epsilon, sealed.l1))
        noisy = limited.measure(sealed, noise=noise, purpose="count people by their number of rows")
        self.state.record(people={"values": noisy.values.tolist(), "scale": noisy.scale})

    def _baselines(
        self, data: Source, configurations: tuple[Configuration, ...], rows: int
    ) -> dict[tuple[str, ...], LinearFit]:
        """Fit the private regressions that all attempts share, one per distinct version of their columns; none if attempts fit their own."""
        if self.spec.form != "published" or not self.spec.shares.baselines:
            return {}
        recorded: dict[str, Any] = dict(self.state.get("baselines", {}))  # by version 0.1: no journal
        number = len(recorded)
        found: dict[tuple[str, ...], LinearFit] = {}
        for configuration in configurations:
            for key, regression, epsilon in regressions_for(self.spec, configuration):
                if key in found:
                    continue
                fitted = recorded.pop("; ".join(key), None)
                if fitted is not None:
                    found[key] = fit_from_plain(fitted)
                    continue
                curator = self._curator(data, configuration, f"baseline {number}")
                number += 1
                found[key] = fit_baseline(self.spec, regression, curator, rows=rows, epsilon=epsilon)
        return found


def _parts(data: Source) -> tuple[Transformed, ...]:
    return (data,) if isinstance(data, Transformed) else data.parts
