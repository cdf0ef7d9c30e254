"""Re-checking a bundle: hashes, guarantee, schema conformance. Needs nothing but the bundle."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from understudy.data import read_frame
from understudy.errors import BudgetError, BundleError, Problems, SignatureError, UnderstudyError
from understudy.privacy import (
    ApproxDP,
    Budget,
    Event,
    PureDP,
    Unit,
    budget_from_dict,
    event_from_dict,
    guarantee_of,
)
from understudy.privacy.accounting.filter import Filter, Spending
from understudy.privacy.events import AllowanceEvent, ApproxEvent, InsideEvent, PureEvent, act_of
from understudy.privacy.exact_floats import float_down, float_up
from understudy.privacy.ledger.ledger import Invariant
from understudy.release.agreement import agreement_problems
from understudy.release.approvals import missing_approvals, specification_hash
from understudy.release.bundle.bundle import MANIFEST, PARTS, bundle_files, manifest_text
from understudy.release.selection.profiles import Bound
from understudy.release.series.previous import bounds_of, series_of
from understudy.release.spec.budget import Shares
from understudy.release.spec.spec import Spec
from understudy.schema import Integer, Real, Schema
from understudy.schema.entities import Entity, finest
from understudy.schema.files.yaml import read_plain
from understudy.schema.linked import Register, read_register
from understudy.signatures import statement_from_dict

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["verify_bundle"]

_UNREADABLE = (OSError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError)
"""What reading a document that is not what it should be can end in."""
_OTHERS = "the table has other ledgers, whose promises add up"
_TOLERANCE = 1e-5
"""Selections are accounted for numerically, to fewer digits than other parts."""


def verify_bundle(folder: str | os.PathLike[str]) -> dict[str, Any]:
    """Check a bundle and return its certificate; raise with everything wrong at once.

    Checked: that the files are exactly those of the manifest, byte for byte; that the charges, priced anew,
    keep the budget of the certificate, and that its words say the same; that neither it nor the bounds that odds were told from are smaller than what the parts of the
    specification add up to; that a selection was charged once, for what the specification proves it costs; that the data has the number of rows the certificate says, fits the
    schema and obeys its rules; that entities with their events have valid keys that join, and their order; that every criterion passed; that every approval is of this very specification, every signature
    among them holds, none that the specification requires is missing, and the record of what was agreed on is the one that the specification names. Whether a key is trusted is not looked at: see
    `understudy.release.signing.check_bundle`.

    Raises
    ------
    BundleError
        With one line per problem.
    """
    path = Path(folder)
    problems = Problems(f"The bundle {str(path)!r} does not hold")
    if not path.is_dir():
        raise BundleError(f"There is no bundle folder {str(path)!r}.")
    _check_files(path, problems)
    problems.raise_if_any(BundleError)  # what was touched is not worth interpreting
    try:
        document: dict[str, Any] = json.loads((path / "certificate.json").read_text(encoding="utf-8"))
        register = read_register(path / "schema.yaml")
        schema = Schema.read(path / "schema.yaml") if register is None else None
        of = Schema.from_dict(register.pairs[0].plain) if register is not None else schema
        _check_guarantee(document, problems, None if of is None else of.entity)
        _check_promise(path, document, problems)
        if register is not None:
            _check_register(path, document, register, problems)
        elif schema is not None:
            _check_data(path, document, schema, problems)
        _check_approvals(path, document, problems)
    except (*_UNREADABLE, UnderstudyError) as error:
        problems.add(f"it cannot be interpreted: {type(error).__name__}: {error}")
    problems.raise_if_any(BundleError)
    return document


def _check_files(path: Path, problems: Problems) -> None:
    """Compare the folder with its manifest."""
    try:
        if not (path / MANIFEST).is_file():  # reading a pipe would wait for ever
            raise FileNotFoundError
        text = (path / MANIFEST).read_text(encoding="utf-8")
        listed = json.loads(text)["files"]
        canonical = manifest_text({str(name): str(digest) for name, digest in listed.items()})
    except _UNREADABLE:
        problems.add(f"{MANIFEST} is absent or not a manifest")
        return
    if canonical != text:
        problems.add(f"{MANIFEST} was changed")
    found = set(bundle_files(path))
    for name in sorted(found - set(listed)):
        problems.add(f"{name} is not part of the bundle")
    for name, digest in listed.items():
        file = path / name
        if name not in found or not file.is_file() or file.is_symlink():
            problems.add(f"{name} is missing")
        elif hashlib.sha256(file.read_bytes()).hexdigest() != digest:
            problems.add(f"{name} was changed")


def _check_guarantee(document: dict[str, Any], problems: Problems, entity: Entity | None = None) -> None:
    """Price every charge anew, add them up, and compare the words with the numbers; who is protected may be said as version 0.1 said it."""
    promised = document["guarantee"]
    budget, unit = budget_from_dict(promised["budget"]), Unit.from_dict(promised["unit"])
    entries = _rejoined(document["ledger"], _answered(document["ledger"], problems))
    events = [event_from_dict(entry["event"]) for entry in entries]
    reserve = sum((Fraction(float(entry["delta"])) for entry in entries), Fraction(0))
    if not events:
        problems.add("the certificate lists no charges")
    names = dict.fromkeys(
        (promised["accounting"], *(("gdp", "zcdp", "pure") if isinstance(budget, ApproxDP) else ()))
    )
    kept = any(_within(budget, unit, name, events, reserve) for name in names)
    if not kept and not _plainly_within(budget, unit, entries):
        problems.add("the charges add up to more than the guarantee promises")
    ways = (
        unit.describe(),
        *unit.earlier_words,
        *([unit.describe_entity()] if entity is not None and entity.id == unit.id_column else []),
    )
    begins = [f"{budget.describe()}; neighbouring tables: {way};" for way in ways]
    words, neighbours = str(promised["words"]), promised.get("neighbours", "")
    if not any(words.startswith(begin) and neighbours in begin for begin in begins):
        problems.add("the words of the guarantee say something else than its numbers")
    if promised.get("other_ledgers") and _OTHERS not in str(promised["words"]):
        problems.add("the words of the guarantee do not say that the table has other ledgers")


def _check_promise(path: Path, document: dict[str, Any], problems: Problems) -> None:
    """Compare what the certificate promises with what the specification's parts, which were fixed beforehand, add up to.

    Charges chosen in the light of answers may come to less than the parts allowed, which is no promise. A specification that refers to
    files outside the bundle cannot be read here; then the charges alone are checked.
    """
    promised = document["guarantee"]
    plain = read_plain(
        path / "spec.json"
    )  # one that gives a key twice says two things at once, and is an error
    try:
        spec = Spec.from_dict(plain, where=path)
    except UnderstudyError:
        if document.get("approvals") or plain.get("approvals"):
            problems.add(
                "spec.json cannot be read as a specification, so nothing shows that the certificate is about the one that was approved"
            )
        return
    if spec.fingerprint() != document["spec_fingerprint"]:
        problems.add("spec.json is not the specification of the certificate")
        return
    if Unit.from_dict(promised["unit"]) != spec.unit:
        problems.add("the guarantee protects somebody else than the specification says")
    shares = spec.shares
    if shares.shared is not None and any(
        (entry["scope"].split("/")[1:] or [""])[0].startswith("baseline")
        for entry in document["ledger"]["entries"]
    ):
        shares = shares.shared  # regressions were charged outside the selection, as version 0.1 did it
    if not _covers(budget_from_dict(promised["budget"]), shares.promise):
        problems.add(
            f"the parts of the specification add up to {shares.promise.describe()}, more than is promised"
        )
    if promised.get("trade_off"):
        known = shares.trade_off
        for bound in map(Bound.from_dict, promised["trade_off"]):
            if not any(_close(bound.epsilon, x.epsilon) and _covers(bound.budget, x.budget) for x in known):
                problems.add(f"nothing in the specification proves the bound {bound.to_dict()}")
    _check_selection(document, shares, problems)
    _check_series(document, spec, problems)
    stated = [Invariant(x["subject"], x["rule"], x["value"], "", 0) for x in promised.get("invariants", ())]
    if "steps" in promised and promised["steps"] < spec.condition(tuple(stated)).steps:
        problems.add("two tables that the promise compares are further apart than the certificate says")


def _check_series(document: dict[str, Any], spec: Spec, problems: Problems) -> None:
    """Add up the series anew, from what the specification says of earlier releases; their own bundles prove that."""
    wanted, said = series_of(spec, bounds_of(document)), document.get("series")
    if wanted is None or said is None:
        if wanted is not said:
            problems.add("certificate and specification disagree on whether the release is one of a series")
        return
    previous = spec.file.previous
    if previous is None or previous.releases[-1].manifest != previous.manifest:
        problems.add("the release before this one in the series is not the one that the specification names")
    if not _covers(budget_from_dict(said["composed"]), budget_from_dict(wanted["composed"])):
        problems.add(f"the series adds up to {wanted['words']}, more than the certificate says")
    if budget_from_dict(said["composed"]).describe() not in said["words"]:
        problems.add("the words about the series say something else than its numbers")
    if {**said, "composed": 0, "words": ""} != {**wanted, "composed": 0, "words": ""}:
        problems.add("the series of the certificate is not that of the specification")


def _check_selection(document: dict[str, Any], shares: Shares, problems: Problems) -> None:
    """Compare the charge for a selection with what the specification proves that it costs; a single attempt has none."""
    charges = [
        event_from_dict(entry["event"])
        for entry in document["ledger"]["entries"]
        if entry["event"] is not None and entry["scope"].split("/")[1:2] == ["selection"]
    ]
    if shares.single:
        if charges:
            problems.add("a selection was charged, and the specification makes a single attempt")
        return
    paid: list[Budget] = []
    for event in charges:
        if isinstance(event, PureEvent):
            paid.append(PureDP(event.epsilon))
        elif isinstance(event, ApproxEvent):
            paid.append(ApproxDP(event.epsilon, event.delta))
    if len(charges) != 1 or len(paid) != 1:
        problems.add("the certificate has to list one charge for the whole selection")
        return
    assert shares.selection is not None
    if not _covers(paid[0], shares.selection.budget):
        problems.add(
            f"the charge for the selection is less than the {shares.selection.budget.describe()} that the specification proves"
        )


def _covers(said: Budget, proved: Budget) -> bool:
    """Say whether a guarantee follows from one that is proved, by its numbers alone and up to the tolerance they are computed with."""
    if isinstance(said, ApproxDP) and isinstance(proved, PureDP):
        return _close(said.epsilon, proved.epsilon)
    if type(said) is not type(proved):
        return False
    return all(_close(getattr(said, item.name), getattr(proved, item.name)) for item in fields(said))


def _close(said: float, proved: float) -> bool:
    return said >= proved * (1 - _TOLERANCE)


def _within(budget: Budget, unit: Unit, accounting: str, events: Sequence[Event], reserve: Fraction) -> bool:
    """Say whether the filter of one accounting admits all charges."""
    try:
        rule = Filter(budget, unit, accounting=accounting, approximate_delta=float_up(reserve))
    except BudgetError:
        return False
    spending = Spending()
    for event in events:
        spending = rule.plus(spending, event)
    return rule.holds(spending)


def _plainly_within(budget: Budget, unit: Unit, entries: Sequence[Mapping[str, Any]]) -> bool:
    """Say whether the parts of the release, each by its own accounting, add up to the promise.

    The parts were fixed beforehand (`understudy.release.spec.budget`): those that are pure add up by epsilon, and the rest, which is
    the model, by the tightest accounting at the delta that is left.
    """
    if not isinstance(budget, ApproxDP):
        return False
    parts: dict[str, Spending] = {}
    for entry in entries:
        place = (str(entry["scope"]).split("/")[1:] or [""])[0]
        event = event_from_dict(entry["event"])
        if isinstance(event, AllowanceEvent | InsideEvent):
            return False  # a ledger by plain addition: its filter has spoken
        parts[place] = parts.get(place, Spending()).plus(event, parts=unit.parts_touched)
    pure, delta, rest = Fraction(0), Fraction(0), []
    for spending in parts.values():
        epsilon = spending.sums["pure"]
        if epsilon is None:
            rest.append(spending)
        else:
            pure, delta = pure + epsilon, delta + spending.delta
    left = float_down(Fraction(budget.delta) - delta)
    if len(rest) > 1 or left < 0:
        return False
    try:
        more = Fraction(0) if not rest else Fraction(guarantee_of(rest[0], left).epsilon)
    except UnderstudyError:
        return False
    return pure + more <= Fraction(budget.epsilon)


def _answered(ledger: dict[str, Any], problems: Problems) -> list[dict[str, Any]]:
    """Return the charges that the release depends on: all but those whose answers were lost, if they were charged again."""
    charges = [entry for entry in ledger["entries"] if entry["event"] is not None]
    lost = set(ledger.get("lost_entries", ()))
    answered = [entry for entry in charges if entry["sequence"] not in lost]
    for entry in charges:
        again = (
            other["sequence"] > entry["sequence"]
            and all(other[name] == entry[name] for name in ("scope", "purpose"))
            and act_of(other["event"]) == act_of(entry["event"])
            for other in answered
        )
        if entry["sequence"] in lost and not any(again):
            problems.add(f"charge {entry['sequence']} is said to be lost and was not made again")
    return answered


def _rejoined(ledger: Mapping[str, Any], answered: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the charges with every act in the allowance that its part of the release was opened with.

    Where lost answers had filled that one, later acts were charged to others beside it. The part was held to its own budget all the same,
    lost answers left out; so all its acts have to fit the first allowance, and the others need not be counted.
    """
    lost = set(ledger.get("lost_entries", ()))
    filled = {
        entry["event"]["allowance"]
        for entry in ledger["entries"]
        if entry["sequence"] in lost and entry["event"]["kind"] == InsideEvent.kind
    }
    first: dict[str, str] = {}
    others: dict[str, str] = {}
    kept = []
    for entry in answered:
        event, place = entry["event"], entry["scope"]
        if event["kind"] == AllowanceEvent.kind:
            began = first.setdefault(place, event["name"])
            if began in filled and event["name"] != began:
                others[event["name"]] = began
                continue
        if event["kind"] == InsideEvent.kind and event["allowance"] in others:
            entry = entry | {"event": event | {"allowance": others[event["allowance"]]}}
        kept.append(entry)
    return kept


def _check_approvals(path: Path, document: dict[str, Any], problems: Problems) -> None:
    """Compare the approvals of the certificate with the specification, and with those that it requires."""
    spec = json.loads((path / "spec.json").read_text(encoding="utf-8"))
    wanted = specification_hash(spec)
    given = []
    for plain in document.get("approvals", ()):
        try:
            said = statement_from_dict(plain)
        except SignatureError as error:
            problems.add(f"an approval in the certificate cannot be used: {error}")
            continue
        if said.meaning != "approved" or said.hash != wanted:
            problems.add(f"an approval in the certificate is of something else: {said.describe()}")
        elif not said.holds():
            problems.add(f"the signature of an approval does not hold: {said.describe()}")
        else:
            given.append(said)
    rules = spec.get("approvals") or {}
    missing = missing_approvals(
        rules.get("required", ()), bool(rules.get("signed")), rules.get("keys") or {}, given, wanted=wanted
    )
    for item in missing:
        problems.add(f"a required approval is missing: {item}")
    for item in agreement_problems(spec, document):
        problems.add(item)


def _check_data(path: Path, document: dict[str, Any], schema: Schema, problems: Problems) -> None:
    """Read the data back and compare it with certificate and schema."""
    if schema.fingerprint() != document["schema_fingerprint"]:
        problems.add("schema.yaml is not the schema of the certificate")
    frame = read_frame(path / "data.csv")
    codes = schema.encode_frame(frame)
    if len(frame) != document["rows"]:
        problems.add("data.csv does not have as many rows as the certificate says")
    if not schema.holds_codes(codes).all():
        problems.add("data.csv breaks a rule of the schema")
    if not all(rule.holds_raw(frame).all() for rule in schema.rules):
        problems.add("values of data.csv break a rule of the schema")
    for item in schema.derived:
        if item.name not in frame or not item.agrees(frame, schema):
            problems.add(f"data.csv has no column {item.name!r} that follows from the others")
    _check_levels(path, document, schema, frame, problems)
    if not all(item["passed"] for item in document["criteria"]):
        problems.add("a criterion is marked as not passed")


def _check_register(path: Path, document: dict[str, Any], register: Register, problems: Problems) -> None:
    """Check the tables of entities with several tables of events, and the bundle of each part, which has to be one of the same release."""
    whole = Schema.from_dict(register.whole.plain)
    if whole.fingerprint() != document["schema_fingerprint"]:
        problems.add("schema.yaml is not the schema of the certificate")
    wanted = (register.entities, *register.events)
    if set(document.get("tables") or {}) != set(wanted) or document.get("parts") != list(register.events):
        problems.add(f"the certificate has to name the linked tables {', '.join(wanted)}")
        return
    tables = {name: read_frame(path / "tables" / f"{name}.csv") for name in wanted}
    for name, rows in tables.items():
        if len(rows) != document["tables"][name]:
            problems.add(f"tables/{name}.csv does not have as many rows as the certificate says")
    if document["rows"] != len(tables[register.entities]):
        problems.add(f"the certificate does not have the number of rows of tables/{register.entities}.csv")
    same = ("release", "spec_fingerprint", "guarantee", "ledger", "approvals", "agreement")
    judged = []
    for table, schema in zip(register.events, register.schemas(path), strict=True):
        place = path / PARTS / table
        try:
            part = verify_bundle(place)
        except BundleError as error:
            problems.add(f"{PARTS}/{table} does not hold: {error}")
            continue
        judged += part["criteria"]
        if any(part.get(key) != document.get(key) for key in same):
            problems.add(f"{PARTS}/{table} is the bundle of another release")
        if part["schema_fingerprint"] != schema.fingerprint():
            problems.add(f"{PARTS}/{table} describes its tables otherwise than schema.yaml")
        for name in (register.entities, table):
            own = read_frame(place / "tables" / f"{name}.csv")
            names = [str(column) for column in own.columns if column in tables[name].columns]
            shared = set(tables[name].columns) - _written_elsewhere(register, table)
            if set(names) != shared or not own[names].astype(str).equals(tables[name][names].astype(str)):
                problems.add(f"tables/{name}.csv is not the table of {PARTS}/{table}")
    if sorted(map(repr, judged)) != sorted(map(repr, document["criteria"])):
        problems.add("the criteria of the certificate are not those of its parts")


def _written_elsewhere(register: Register, table: str) -> set[str]:
    """Return the columns of the table of entities that follow from their events in other tables: their numbers and summaries."""
    found: set[str] = set()
    for pair in register.pairs:
        if pair.tables[1] != table:
            entity = Schema.from_dict(pair.plain).entity
            assert entity is not None
            found.update(entity.written)
    return found


def _check_levels(
    path: Path, document: dict[str, Any], schema: Schema, frame: pd.DataFrame, problems: Problems
) -> None:
    """Check entities with their events: whose the rows are, what is fixed, their order; of linked tables their keys, and that joining them gives the rows."""
    entity, said = schema.entity, document.get("tables")
    if said is not None and (entity is None or entity.tables is None):
        problems.add("the certificate names linked tables, and the schema describes one table")
        return
    if entity is None or document["guarantee"]["unit"]["id_column"] != entity.id:
        return
    linked = entity.tables is not None
    key = (entity.reference or entity.id) if linked else entity.id
    if key not in frame or frame[key].isna().any():
        problems.add(f"data.csv has rows without {key!r}")
        return
    sizes = frame[key].value_counts()
    if len(sizes) and int(sizes.max()) > entity.max_events:
        problems.add(f"data.csv has more than {entity.max_events} rows with one {key!r}")
    same = frame.groupby(key, sort=False)[list(entity.fixed)].nunique(dropna=False)
    if (same > 1).to_numpy().any():
        problems.add(f"data.csv has rows with one {key!r} that differ in what is fixed about it")
    if entity.order is not None:
        place = Schema([finest(schema.column(entity.order))]).encode_frame(frame)[entity.order]
        who = frame[key].to_numpy()
        if (np.diff(np.asarray(place, np.int64)) < 0)[who[1:] == who[:-1]].any():
            problems.add(f"data.csv has rows that are not in the order of {entity.order!r}")
    if linked:
        _check_tables(path, said, schema, frame, problems)


def _check_tables(
    path: Path, said: Mapping[str, int] | None, schema: Schema, frame: pd.DataFrame, problems: Problems
) -> None:
    """Check the keys of linked tables, and that joining them gives the rows of the bundle."""
    entity = schema.entity
    assert entity is not None
    assert entity.tables is not None
    wanted = entity.tables[1:] if entity.min_events else entity.tables
    if said is None or set(said) != set(wanted):
        problems.add(f"the certificate has to name the linked tables {', '.join(wanted)}")
        return
    tables = {name: read_frame(path / "tables" / f"{name}.csv") for name in wanted}
    for name, table in tables.items():
        if len(table) != said[name]:
            problems.add(f"tables/{name}.csv does not have as many rows as the certificate says")
    events, key = tables[entity.tables[1]], entity.reference or entity.id
    whole = events
    if not entity.min_events:
        entities = tables[entity.tables[0]]
        if entities[entity.id].isna().any() or not entities[entity.id].is_unique:
            problems.add(f"{entity.id!r} is no key of tables/{entity.tables[0]}.csv")
            return
        if not events[key].isin(entities[entity.id]).all():
            problems.add(
                f"tables/{entity.tables[1]}.csv has rows whose {key!r} is no {entity.id!r} of tables/{entity.tables[0]}.csv"
            )
            return
        numbers = entities[entity.id].map(events[key].value_counts()).fillna(0).astype(int).astype(str)
        if entity.count is not None and not (entities[entity.count].astype(str) == numbers).all():
            problems.add(f"{entity.count!r} of tables/{entity.tables[0]}.csv is not the number of events")
        _check_summaries(schema, entities, events, problems)
        own = replace(schema.select(entity.fixed), entity=None) if entity.fixed else None
        if own is not None and not own.holds_codes(own.encode_frame(entities)).all():
            problems.add(f"tables/{entity.tables[0]}.csv breaks a rule of the schema")
        beside = entities.set_index(entity.id).drop(columns=list(entity.written), errors="ignore")
        whole = events.join(beside, on=key)
    named = [key, *schema.output_names]
    if not set(named) <= set(whole) or not whole[named].reset_index(drop=True).equals(frame[named]):
        problems.add("data.csv is not what joining the linked tables gives")


def _check_summaries(
    schema: Schema, entities: pd.DataFrame, events: pd.DataFrame, problems: Problems
) -> None:
    """Check that what is written of the events of an entity follows from them."""
    import pandas as pd

    entity = schema.entity
    assert entity is not None
    assert entity.tables is not None
    who = pd.Index(entities[entity.id]).get_indexer(events[entity.reference or entity.id])
    for item in entity.summaries:
        of, rows = schema.column(item.of), events[item.of]
        if isinstance(of, Integer | Real):
            numbers = pd.to_numeric(rows, errors="coerce")
            rows = numbers.astype(object).where(numbers.notna(), rows)
        if item.name not in entities or not _equal(
            item.values(of, rows, who, len(entities)), entities[item.name]
        ):
            problems.add(
                f"{item.name!r} of tables/{entity.tables[0]}.csv does not follow from the rows of tables/{entity.tables[1]}.csv"
            )


def _equal(found: pd.Series, written: pd.Series) -> bool:
    """Say whether values are those that were written: as numbers where they are, otherwise as text."""
    import pandas as pd

    one, two = (item.reset_index(drop=True) for item in (found, written))
    left, right = (pd.to_numeric(item.astype(str), errors="coerce") for item in (one, two))
    as_numbers = np.isclose(left, right, rtol=1e-9, atol=0.0)
    as_text = one.astype(str).str.lower().eq(two.astype(str).str.lower())
    return bool((as_numbers | as_text | (one.isna() & two.isna())).all())
