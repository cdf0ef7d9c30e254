"""The documents an office needs beside a release: what follows from the certificate is filled in, the rest is asked.

Each page is made from what is published (certificate, specification, schema) and from nothing else, so anybody can make it again. Laws and
standards are cited with their date and version, by topic and number; whether they are complied with is for people to say, and no page says it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context
from functools import cached_property
from typing import Any

from understudy.privacy import Budget, Unit, budget_from_dict
from understudy.release.agreement import Agreement
from understudy.release.bundle.metadata import SYNTHETIC
from understudy.release.bundle.reporting import (
    about_records,
    about_rows,
    at_least,
    between,
    criterion_groups,
    fixed,
    known_profile,
    odds_limit,
    of_entities,
    shown_labels,
)
from understudy.release.bundle.risk import CHANCES, Risks, risks
from understudy.report import Block, Bullets, Page, Table, Text, chance
from understudy.schema import Schema

__all__ = ["CITATIONS", "DOCUMENTS", "OfficeFacts", "office_documents"]

DOCUMENTS = {
    "documents/anonymisation.html": "anonymisation statement: singling out, linking and inferring, with bounds",
    "documents/dpia-annex.html": "annex to a data protection impact assessment",
    "documents/nist-sp-800-226.html": "evaluation of the guarantee along NIST SP 800-226",
    "documents/iso-27559.html": "answers by clause of ISO/IEC 27559",
    "documents/datasheet.html": "datasheet of the table",
}
CITATIONS = {
    "wp216": "Article 29 Data Protection Working Party, Opinion 05/2014 on Anonymisation Techniques (WP216, 0829/14/EN), adopted on 10 April 2014.",
    "gdpr": "Regulation (EU) 2016/679 of 27 April 2016 (General Data Protection Regulation), OJ L 119, 4.5.2016: Recital 26, Article 4(1), Article 35(7).",
    "wp248": "Article 29 Data Protection Working Party, Guidelines on Data Protection Impact Assessment (WP248 rev.01), as last revised and adopted on 4 October 2017.",
    "cohen": "A. Cohen, K. Nissim, Towards formalizing the GDPR's notion of singling out, PNAS 117(15), 2020.",
    "nist": "J. P. Near, D. Darais, N. Lefkovitz, G. S. Howarth, Guidelines for Evaluating Differential Privacy Guarantees, NIST SP 800-226, March 2025.",
    "iso": "ISO/IEC 27559:2022, Privacy enhancing data de-identification framework, first edition, November 2022.",
    "gebru": "T. Gebru and others, Datasheets for Datasets, Communications of the ACM 64(12), December 2021.",
}
_BLANK = "________"
_MOST = 20.0
"""An epsilon beyond which a factor says nothing."""
_NO_ADVICE = (
    "This page states what follows from the certificate of the release, and asks what only people can answer. It is no legal advice, and it claims no "
    "compliance with any law or standard. The bundle is sealed: fill in a copy."
)


def _sizes(certificate: Mapping[str, Any]) -> str:
    """Say how many synthetic rows there are, of linked tables in each."""
    tables = certificate.get("tables") or {}
    if not tables:
        return f"{certificate['rows']:,} synthetic rows"
    return f"synthetic tables ({', '.join(f'{name} with {rows:,} rows' for name, rows in tables.items())})"


@dataclass(frozen=True)
class OfficeFacts:
    """What the documents are made from: the certificate and the specification as published, and the schema.

    ``bounded`` and ``rare`` say whether the report has bounds of errors, and values that may not occur at all.
    """

    certificate: Mapping[str, Any]
    spec: Mapping[str, Any]
    schema: Schema
    bounded: bool = False
    rare: bool = False

    @property
    def errors(self) -> str:
        """What is known of errors, and where it stands."""
        listed = ["bounds by column and pair of columns"] if self.bounded else []
        listed += ["values that may not occur at all"] if self.rare else []
        if listed:
            return f"the report lists {', and '.join(listed)}"
        return "no bounds are known beyond the criteria"

    @property
    def bias(self) -> str:
        """Which counts are off on one side."""
        said = (
            "counts of rare and absent values are too large on average, by about the deviation of the noise"
        )
        return (
            f"{said}; the data dictionary names them"
            if self.rare
            else f"{said}; which values that concerns is not known"
        )

    @property
    def promised(self) -> Mapping[str, Any]:
        """The guarantee."""
        return dict(self.certificate["guarantee"])

    @cached_property
    def budget(self) -> Budget:
        """The promise."""
        return budget_from_dict(self.promised["budget"])

    @cached_property
    def unit(self) -> Unit:
        """Who is protected."""
        return Unit.from_dict(self.promised["unit"])

    @cached_property
    def risks(self) -> Risks:
        """What the promise leaves to an attacker."""
        known, steps = known_profile(self.promised)
        mutual = self.unit.relation == "replace-one" or steps > 1
        return risks(known, rows=self.size[0], mutual=mutual)

    @property
    def size(self) -> tuple[int, str]:
        """How many units the published table would be of, and what they are: rows, or the rows of the table of entities."""
        entity, tables = self.schema.entity, self.certificate.get("tables") or {}
        if entity is not None and entity.tables is not None and entity.tables[0] in tables:
            return int(tables[entity.tables[0]]), entity.tables[0]
        return int(self.certificate["rows"]), "rows"

    @property
    def title(self) -> str:
        """Title of the table."""
        return str(self.spec.get("title") or self.certificate["name"])

    def publisher(self, what: str) -> str:
        """Return what the specification says about the publisher, or a place to fill in."""
        return str((self.spec.get("publisher") or {}).get(what) or _BLANK)

    @property
    def whom(self) -> str:
        """Who is protected, in words and as the certificate has it."""
        if of_entities(self.schema, self.unit):
            return f"each {self.unit.id_column} with all rows (neighbouring tables: {self.promised['neighbours']})"
        whose = "each record" if self.unit.id_column is None else "each person with all records that are kept"
        return f"{whose} (neighbouring tables: {self.promised['neighbours']})"

    @property
    def looks(self) -> int:
        """Number of charges."""
        return sum(entry["event"] is not None for entry in self.certificate["ledger"]["entries"])

    @property
    def odds(self) -> str:
        """How far one outcome moves the odds, in words."""
        known, steps = known_profile(self.promised)
        epsilon, exceeded = odds_limit(between(self.budget, steps), known)
        often = (
            "always"
            if not exceeded
            else f"with a chance of at least {at_least(1 - exceeded)}".replace(" %", "%")
        )
        factor = (
            f"{_up(math.exp(epsilon))} (e to the power of {epsilon:.4g})"
            if epsilon < _MOST
            else "no useful number"
        )
        return f"{factor}, {often}"

    @property
    def protected(self) -> list[list[str]]:
        """The promise, line by line."""
        rows = [
            ["guarantee", self.budget.describe()],
            ["who is protected", self.whom],
            ["condition", str(self.promised.get("condition") or "none")],
            ["how it adds up", f"{self.looks} charges, {self.promised['accounting']} accounting; {self.promised['selection']} ({self.promised['argument']})"],
            ["allowed to this release", budget_from_dict(self.promised.get("total") or self.promised["budget"]).describe()],
        ]  # fmt: skip
        if self.promised.get("table_total"):
            rows.append(
                [
                    "allowed to all releases of the table",
                    budget_from_dict(self.promised["table_total"]).describe()
                    + (
                        " from this ledger; the table has other ledgers, whose promises add up"
                        if self.promised.get("other_ledgers")
                        else ""
                    ),
                ]
            )
        if self.certificate.get("series"):
            rows.append(["the series of releases up to now", str(self.certificate["series"]["words"])])
        return rows

    @property
    def public(self) -> list[str]:
        """What was treated as public, or measured instead."""
        return [
            f"{name}: {'; '.join(map(str, fact)) if isinstance(fact, list | tuple) else fact}"
            for name, fact in self.certificate["public_facts"].items()
            if fact
        ]

    @property
    def criteria(self) -> list[list[str]]:
        """The criteria of acceptance, as their author wrote them."""
        found = []
        for item in self.certificate["criteria"]:
            unit = f" {item['unit']}" if item["unit"] else ""
            groups = criterion_groups(self.spec, str(item["name"]))
            found.append(
                [
                    str(item["name"]),
                    f"{item['type']}: {item['metric']}{f' (in groups: {groups})' if groups else ''}",
                    f"below {item['threshold']:g}{unit}",
                    "met" if item["passed"] else "not met",
                ]
            )
        return found


def office_documents(facts: OfficeFacts) -> dict[str, Page]:
    """Return the documents by the names of their files.

    Privacy
    -------
    In: parts of a published bundle. Out: published.
    """
    pages = (_anonymisation, _dpia, _nist, _iso, _datasheet)
    return {name: page(facts) for name, page in zip(DOCUMENTS, pages, strict=True)}


# ---------------------------------------------------------------------------------------- pieces that pages share


def _page(
    facts: OfficeFacts, kind: str, sections: Sequence[tuple[str, Sequence[Block]]], *cited: str
) -> Page:
    sources = Bullets([CITATIONS[name] for name in cited])
    return Page(
        f"{facts.title}: {kind}",
        [*sections, ("How to check this page", _check(facts)), ("Sources", [sources])],
        subtitle=f"Release {facts.certificate['release']}, finished {facts.certificate['finished']}, {facts.certificate['software']}.",
        lead=[Text(SYNTHETIC, strong=True), Text(_NO_ADVICE)],
    )


def _check(facts: OfficeFacts) -> list[Block]:
    ledger = facts.certificate["ledger"]
    approvals = [
        f"{said.get('name')}, {said.get('role') or 'no role'}, {said.get('date')}: {said.get('meaning')} {said.get('hash')}"
        for said in (item["statement"] for item in facts.certificate.get("approvals", ()))
    ]
    recorded: list[Block] = (
        [Text("Approvals that the certificate records:"), Bullets(approvals)] if approvals else []
    )
    if "agreement" in facts.certificate:
        agreement = Agreement.from_dict(facts.certificate["agreement"])
        recorded.append(
            Text(
                f"The agreement that was signed, with {agreement.number} {'comment' if agreement.number == 1 else 'comments'}, has the hash {agreement.hash}; spec.json names it."
            )
        )
        if agreement.comments:
            recorded.append(Bullets([item.describe() for item in agreement.comments]))
    return [
        *recorded,
        Text("Every number above is in certificate.json or follows from it. Anybody can recompute the guarantee from the charges, without the real table:"),
        Bullets(
            [
                "understudy verify FOLDER",
                f"specification {facts.certificate['spec_fingerprint']}",
                f"ledger {ledger['id']} of the table {ledger['table']!r}, {ledger['length']} entries, head {ledger['head']}",
            ]
        ),
    ]  # fmt: skip


def _questions(caption: str, *asked: str) -> Table:
    """Return questions with a place for an answer, a name and a date."""
    return Table(
        caption,
        ("question", "answer", "name", "date"),
        [[question, _BLANK, _BLANK, _BLANK] for question in asked],
    )


def _answered(caption: str, rows: Sequence[tuple[str, str]]) -> Table:
    """Return topics with what the certificate says; a question leaves a place for an answer, a name and a date."""
    return Table(
        caption,
        ("topic", "from the certificate, or asked", "answer", "name", "date"),
        [[topic, said, *([_BLANK] * 3 if said.endswith("?") else [""] * 3)] for topic, said in rows],
    )


def _promise(facts: OfficeFacts) -> list[Block]:
    return [Table("The promise", ("what", "from the certificate"), facts.protected)]


def _by_record(facts: OfficeFacts) -> list[Block]:
    words = about_records(facts.unit)
    return [Text(words)] if words else []


def _up(number: float) -> str:
    """Write a number with three digits, rounded up.

    Examples
    --------
    >>> _up(9.0250135), _up(0.12), _up(123456.0)
    ('9.03', '0.12', '124,000')
    """
    return f"{float(Context(prec=3, rounding=ROUND_CEILING).create_decimal(number)):,.6g}"


def _most(chance_: float, among: int) -> str:
    """Write the most that a chance is: in per cent, or as so many in as many where that would be no number to read.

    Examples
    --------
    >>> _most(0.0903, 100), _most(9.03e-6, 1_000_000)
    ('9.1%', '9.03 in 1,000,000')
    """
    return chance(chance_, rounding=ROUND_CEILING) if among < 1000 else f"{_up(chance_ * among)} in {among:,}"


def _chances(facts: OfficeFacts, caption: str, before: str, most: int = 5) -> Table:
    found = zip(CHANCES[:most], facts.risks.chances, strict=False)
    rows = [[words, _most(after, round(1 / share))] for (share, words), (_, after) in found]
    return Table(caption, (before, "with your record in the table, at most"), rows)


# ---------------------------------------------------------------------------------------- the pages


def _anonymisation(facts: OfficeFacts) -> Page:
    risk = facts.risks
    sections: list[tuple[str, list[Block]]] = [
        (
            "In short",
            [
                Text(
                    "The published rows were drawn from a model. The model, and the decision to publish, were made from answers about the real records to which "
                    "random noise was added. With any one record changed, the same answers would still have come out, with chances that differ by no more than the guarantee says."
                ),
                Text(
                    "The bounds on this page follow from the guarantee by proof: they hold whatever somebody knows "
                    "already, whatever is published about others elsewhere, and however the rows are analysed. They are about this release alone: where there are further "
                    "releases of the same records, what all of them promise adds up, and the chances grow with it."
                ),
                *_by_record(facts),
                Text("Whether that makes the table anonymous information in the sense of the law is a question for people, and is asked at the end."),
            ],
        ),
        ("The promise", _promise(facts)),
        (
            "Singling out",
            [
                Text(
                    "The opinion asks whether a person can be isolated. No row is the record of a person, so a row isolates nobody; what remains is that somebody derives "
                    "from the table a rule that fits you and hardly anybody else. The table limits how much more often such a rule fits you than it would have without your record."
                ),
                _chances(facts, "Chance that a rule fits you", "without your record: the share of people whom it fits", 3),
                Text(
                    f"If the real table has as many {'records' if facts.size[1] == 'rows' else facts.size[1]} as this one has {'rows' if facts.size[1] == 'rows' else 'of them'} ({facts.size[0]:,}), a rule that fits at most one in 1,000 times as many people fits somebody in it with a "
                    f"chance of at most {chance(risk.isolated, rounding=ROUND_CEILING)}; by luck, without any data, of 0.1%. Rules that fit more people single out somebody by luck more often."
                ),
            ],
        ),
        (
            "Linking",
            [
                Text(
                    "The opinion asks whether records about one person can be linked. There is no record to link, so the question becomes whether the table helps to find out "
                    "that somebody known from elsewhere is in it."
                ),
                Text(
                    f"If a coin decided whether you are in the table, nobody is right about it with a chance above {chance(risk.right_guess, rounding=ROUND_CEILING)} "
                    f"(a guess: 50%). Of those who are in it, the share that somebody says are in it exceeds the share of the others of whom he says it by at most {chance(risk.advantage, rounding=ROUND_CEILING)}."
                ),
                Table(
                    "Chance of picking the one of several people who is in it, if each of them is as likely as the others",
                    ("people", "by guessing", "with the table, at most"),
                    [[f"{people:,}", f"1 in {people:,}", _most(after, people)] for people, after in risk.picks],
                ),
            ],
        ),
        (
            "Inferring",
            [
                Text(
                    "The opinion asks whether something about a person can be deduced. What is true of many people alike can be: that is what the table is for, and it can be "
                    "deduced about people who never were in the data. The guarantee limits what your own record adds to that."
                ),
                _chances(facts, "Chance of being right about something in your record", "without your record, from everything else"),
                Text(
                    "The last line is larger than the chance about a coin under “Linking”: here nothing is presumed about what would be right half of the time without your record."
                ),
                Text(f"A single outcome moves the odds of any statement about you by a factor of at most {facts.odds}."),
            ],
        ),
        (
            "Attacks",
            [
                Text(
                    "No attack was run on the real records for this page: its result would be one more thing that is learnt from them, and would have to be paid for. "
                    "A bound covers attacks that nobody has thought of; a measured attack covers one, and belongs on rehearsal data (understudy rehearse, understudy audit)."
                ),
            ],
        ),
        ("Treated as public, or measured instead", [Bullets(facts.public)]),
        (
            "Asked",
            [
                _questions(
                    "Questions",
                    "Which means of identification are reasonably likely to be used here, by whom, and at what cost (Recital 26)?",
                    "Is one record, as the promise has it, all that the table holds about a person? If not, why is that enough?",
                    "Are the facts above really public, and who decided that?",
                    "Are the chances above small enough for these people and these columns? For whom are they not?",
                    "Which attacks were measured on rehearsal data, and with what result?",
                    "Who keeps the real records and the ledger, for how long, and who may make further releases?",
                    "Is the table anonymous information? Which later guidance or judgment than the sources below was taken into account?",
                )
            ],
        ),
    ]  # fmt: skip
    return _page(facts, "anonymisation statement", sections, "wp216", "gdpr", "cohen")


def _dpia(facts: OfficeFacts) -> Page:
    risk, certificate = facts.risks, facts.certificate
    picks = dict(risk.picks)
    sections: list[tuple[str, list[Block]]] = [
        (
            "(a) What is done",
            [
                Text(str(facts.spec.get("description") or "").strip() or facts.title),
                _answered(
                    "Description of the processing",
                    [
                        ("controller", f"{facts.publisher('name')}; contact: {facts.publisher('contact')}"),
                        ("purpose", "What is the table published for, and on what legal basis are the records used to make it?"),
                        ("records", f"table {certificate['ledger']['table']!r}: {len(facts.schema.names)} columns, listed in the data dictionary"),
                        ("special categories", "Which columns are special categories of data, or concern children or others who need more protection?"),
                        ("what leaves the house", f"{_sizes(certificate)}, the fitted model and the certificate; no record"),
                        ("how", f"{facts.looks} looks at the records, each charged to a ledger before its noise was drawn; method: {certificate['method']['name']}"),
                        ("when", f"{certificate['started']} to {certificate['finished']}"),
                    ],
                ),
            ],
        ),
        (
            "(b) Necessity and proportionality",
            [
                _answered(
                    "Could less be done?",
                    [
                        ("columns", f"Is each of the {len(facts.schema.names)} columns needed for the purpose, as finely as it is published?"),
                        ("instead of records", "Would tables of counts, or access in a secure room, serve the purpose?"),
                        ("quality", f"{sum(item['passed'] for item in certificate['criteria'])} of {len(certificate['criteria'])} criteria, fixed before any record was read for this release, are met"),
                        ("budget", f"Why is {facts.budget.describe()} no more than the purpose needs?"),
                    ],
                )
            ],
        ),
        (
            "(c) Risks to people in the data",
            [
                Table(
                    "Risks that the guarantee limits",
                    ("risk", "without the person's record", "with it, at most"),
                    [
                        ["somebody finds out that a person is in the data (a coin decided it)", "50%", chance(risk.right_guess, rounding=ROUND_CEILING)],
                        ["somebody picks the one of 100 people who is in the data (all equally likely)", "1 in 100", chance(picks[100], rounding=ROUND_CEILING)],
                        ["somebody is right about a yes or no in a person's record (nothing else presumed)", "1 in 2", chance(risk.chances[4][1], rounding=ROUND_CEILING)],
                    ],
                ),
                *_by_record(facts),
                Text(
                    "Risks that no guarantee of this kind limits: statistics that are true and unwelcome for a group; wrong conclusions from rows that are taken for people; "
                    "misuse of the real records, which stay where they were."
                ),
                _questions(
                    "Questions",
                    "How bad would each of these be for the people concerned, the most exposed of them first?",
                    "Which groups could be harmed by true statistics about them, and was anybody of them asked?",
                    "Who could take the rows for real, and what would they do?",
                ),
            ],
        ),
        (
            "(d) Measures",
            [
                *_promise(facts),
                _answered(
                    "Measures beside the guarantee",
                    [
                        ("every look is paid for", f"ledger {certificate['ledger']['id']}, {certificate['ledger']['length']} entries, chained by hashes"),
                        ("rows are marked", "a plain flag in the Parquet file, beside the CSV file and in the metadata says that they are synthetic"),
                        ("access to the records", "Who can read the real records and the machine on which the release was made?"),
                        ("later releases", "Who decides about further releases from the same ledger, and up to which total?"),
                        ("people in the data", "How are they told, and where can they ask or object?"),
                    ],
                ),
            ],
        ),
        ("Opinions and decision", [_questions("Signatures", "Advice of the data protection officer", "Views of people in the data, or why they were not sought", "Decision of the controller", "Date of the next review")]),
    ]  # fmt: skip
    return _page(facts, "annex to a data protection impact assessment", sections, "gdpr", "wp248")


def _nist(facts: OfficeFacts) -> Page:
    certificate = facts.certificate
    acceptance = certificate["acceptance"] or {}
    checked = (
        f"the criteria below, checked under the same guarantee ({acceptance['form']} form, epsilon {acceptance['epsilon']:g})"
        if acceptance
        else "the criteria below, which concern the synthetic table alone"
    )
    sections: list[tuple[str, list[Block]]] = [
        (
            "The guarantee: what it says, and whom it protects",
            [
                *_promise(facts),
                _answered(
                    "Parameter and unit",
                    [
                        ("privacy parameter", f"{facts.budget.describe()}: chances move by a factor of at most {facts.odds}"),
                        ("variant", str(facts.budget.to_dict()["kind"])),
                        ("unit of privacy", facts.whom),
                        ("people with several records", about_rows(facts.schema, facts.unit) or "A row is the unit here. Does any person have more than one?"),
                        ("choice of the parameter", "Who chose the parameter, when, and why?"),
                    ],
                ),
            ],
        ),
        (
            "Algorithms: correctness, usefulness, bias",
            [
                _answered(
                    "Algorithms",
                    [
                        ("type of analysis", f"synthetic table by the method {certificate['method']['name']}"),
                        ("composition", f"{facts.looks} charges, {facts.promised['accounting']} accounting; {facts.promised['selection']} ({facts.promised['argument']})"),
                        ("choices made in the light of the data", f"inside the guarantee: the specification {fixed(str(facts.promised.get('condition') or ''))}"),
                        ("usefulness", checked),
                        ("bias", facts.bias),
                        ("bias of the records", "Who is missing from the real records, or wrongly recorded, and what does the synthetic table inherit of that?"),
                    ],
                ),
                Table("Criteria", ("criterion", "what is compared", "error", "result"), facts.criteria),
            ],
        ),
        (
            "Trust and implementation",
            [
                _answered(
                    "Trust",
                    [
                        ("trust model", "central: a trusted curator holds the records"),
                        ("who is trusted", "Who is the curator, and who can look at the records without the guarantee?"),
                        ("noise", "whole numbers, drawn exactly in integer arithmetic from a cryptographic generator without a seed; no floating-point noise"),
                        ("side channels", "the release shows no times and no number of attempts; the machine on which it is made is trusted"),
                        ("software", str(certificate["software"])),
                    ],
                )
            ],
        ),
        (
            "Data: security and collection",
            [
                _questions(
                    "Questions",
                    "How are the real records secured and access to them controlled?",
                    "How long are they kept, and could fewer be kept?",
                    "How were they collected, and what were people told?",
                )
            ],
        ),
        ("Treated as public, or measured instead", [Bullets(facts.public)]),
    ]  # fmt: skip
    return _page(facts, "evaluation along NIST SP 800-226", sections, "nist")


def _iso(facts: OfficeFacts) -> Page:
    risk, certificate = facts.risks, facts.certificate
    rules = len(facts.spec.get("cleaning") or ())
    rows = [
        ("6.2.2 practices of recipients", "the guarantee holds for every recipient, so none are presumed; which are there all the same?"),
        ("6.2.3 motives and capacity", "the guarantee presumes unlimited knowledge and computing; who would want to try?"),
        ("6.3.2 transparency", "specification, certificate with every charge, model and report are published with the rows"),
        ("6.3.3 harms", "Which harms could follow for people, by group?"),
        ("7.2.2 data principals", f"{facts.whom}; who are the people?"),
        ("7.2.3 type of data", f"{_sizes(certificate)}; {len(facts.schema.names)} columns"),
        ("7.2.4 types of attributes", "all columns are treated alike: none is taken for harmless or for unknown to an attacker"),
        ("7.2.5 properties of the dataset", f"{rules} cleaning rules; every possible value is public (data dictionary)"),
        ("7.3.2 maximum or average risk", "maximum: the bounds hold for the most exposed record"),
        ("7.3.3 population or sample", "nothing is gained by presuming that the records are a sample; the bounds hold if an attacker knows all others"),
        ("7.3.4 privacy model", facts.budget.describe()),
        ("8.2.2 quantified", f"being right about who is in the data: at most {chance(risk.right_guess, rounding=ROUND_CEILING)} (a coin: 50%); advantage at most {chance(risk.advantage, rounding=ROUND_CEILING)}"),
        ("8.2.3 adversarial testing", "none on the real records; which attacks were tried on rehearsal data, with what result?"),
        ("8.3.2 environment", "the rows may be public; the real records and the ledger stay inside. How are they kept?"),
        ("8.3.3 transformation", f"rows drawn from a model ({certificate['method']['name']}) that was fitted with noise; {facts.looks} charges"),
        ("8.3.4 evaluated again", "When is the release looked at again, and what would lead to its withdrawal?"),
        ("9.2.2 roles", "Who is owner of the records, analyst, approver, publisher?"),
        ("9.2.3 policies", "Which policy of the office allows this release?"),
        ("9.3 after publication", f"all further looks at the table {certificate['ledger']['table']!r} are charged to ledger {certificate['ledger']['id']}; who watches it, and who answers complaints?"),
    ]  # fmt: skip
    sections: list[tuple[str, list[Block]]] = [
        (
            "By clause",
            [Text("Numbers are those of the clauses; the words are ours."), _answered("Clauses", rows)],
        ),
        ("The promise", _promise(facts)),
    ]
    return _page(facts, "answers by clause of ISO/IEC 27559", sections, "iso")


def _datasheet(facts: OfficeFacts) -> Page:
    certificate, spec = facts.certificate, facts.spec
    columns = [
        [c.name, c.kind, shown_labels(c.finest.labels), c.unit or "", c.description or ""]
        for c in facts.schema.columns
    ]
    names = ", ".join(certificate["data"])
    sections: list[tuple[str, list[Block]]] = [
        (
            "Motivation",
            [
                Text(str(spec.get("description") or "").strip() or facts.title),
                _answered("Why it exists", [("who made it", facts.publisher("name")), ("purpose", "For what purpose was the table made, and who paid for it?")]),
            ],
        ),
        (
            "Composition",
            [
                _answered(
                    "What is in it",
                    [
                        ("a row is", "synthetic: a draw from a model, and the record of nobody"),
                        ("how many", f"{_sizes(certificate)}, {len(facts.schema.names)} columns"),
                        ("region", facts.publisher("region")),
                        ("errors", facts.errors),
                        ("confidential or offensive content", "Does any label name something confidential or offensive?"),
                    ],
                ),
                Table("Columns", ("column", "kind", "values", "unit", "description"), columns),
            ],
        ),
        (
            "Collection",
            [_answered("The real records", [("table", str(certificate["ledger"]["table"])), ("how", "How, when and from whom were the real records collected, and what were people told?")])],
        ),
        (
            "Cleaning and rules",
            [Bullets(facts.public)],
        ),
        (
            "Uses",
            [
                Text(f"For statistics like those that the criteria cover{', within the bounds of the report' if facts.bounded else ''}. Not for looking for people or unusual rows, and not for tests that take rows for independent draws."),
                Table("Criteria", ("criterion", "what is compared", "error", "result"), facts.criteria),
            ],
        ),
        (
            "Distribution",
            [_answered("Terms", [("files", names), ("licence", str(spec.get("license") or "Under which licence?")), ("to be cited as", str(spec.get("citation") or "How is it to be cited?"))])],
        ),
        (
            "Maintenance",
            [
                _answered(
                    "Who answers for it",
                    [
                        ("contact", facts.publisher("contact")),
                        ("errors found later", "How are they made known?"),
                        ("later editions", "Will there be any, and what do all of them together promise to people in the data?"),
                    ],
                )
            ],
        ),
        ("The promise", _promise(facts)),
    ]  # fmt: skip
    return _page(facts, "datasheet", sections, "gebru")
