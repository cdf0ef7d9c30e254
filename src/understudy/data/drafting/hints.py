"""What the name of a column hints at: a key, a code, or a part of the calendar. Names are public; entries decide."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import numpy as np
import numpy.typing as npt

from understudy.schema.coding.names import NUMBER_WORDS, words_of

_KEY = frozenset({"id", "ids", "uuid", "guid", "ssn", "key", "mrn", "iban", "email", "phone", "pid"})
_SOMEBODY = frozenset(
    {"patient", "person", "customer", "client", "member", "user", "student", "pupil", "employee", "household", "subject",
     "participant", "respondent", "citizen", "account", "card", "guest", "visitor", "passenger", "donor", "tenant", "insured"}
)  # fmt: skip
_CODE = frozenset(
    {"code", "codes", "agent", "company", "zip", "zipcode", "postcode", "postal", "plz", "icd", "diag", "diagnosis", "fips",
     "naics", "nace", "isco", "isic", "sic", "soc", "occ", "occupation", "industry", "cpt", "drg", "ndc", "msa", "puma",
     "branch", "station", "carrier", "vendor", "supplier", "sku", "isbn", "region", "district", "dept", "department",
     "airport", "operator", "type", "status", "category"}
)  # fmt: skip

MONTHS: tuple[tuple[str, ...], ...] = (
    ("january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november",
     "december"),
    ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"),
    ("januar", "februar", "märz", "april", "mai", "juni", "juli", "august", "september", "oktober", "november", "dezember"),
    ("janvier", "février", "mars", "avril", "mai", "juin", "juillet", "août", "septembre", "octobre", "novembre", "décembre"),
    ("enero", "febrero", "marzo", "abril", "mayo", "junio", "julio", "agosto", "septiembre", "octubre", "noviembre",
     "diciembre"),
)  # fmt: skip
"""Names of the months in lower case: English in full and short, German, French and Spanish."""

WEEKDAYS: tuple[tuple[str, ...], ...] = (
    ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"),
    ("mon", "tue", "wed", "thu", "fri", "sat", "sun"),
    ("montag", "dienstag", "mittwoch", "donnerstag", "freitag", "samstag", "sonntag"),
    ("lundi", "mardi", "mercredi", "jeudi", "vendredi", "samedi", "dimanche"),
    ("lunes", "martes", "miércoles", "jueves", "viernes", "sábado", "domingo"),
)
"""Names of the weekdays in lower case, Monday first."""


def key_of(name: str) -> Literal["key", "number", ""]:
    """Return whether a name says that the entries tell records or people apart, plainly or perhaps.

    Examples
    --------
    >>> key_of("encounter_id"), key_of("patient_nbr"), key_of("number_of_rooms"), key_of("width")
    ('key', 'number', '', '')
    """
    words = words_of(name)
    if not words:
        return ""
    if words[-1] in _KEY or words[0] in _KEY - {"key"}:
        return "key"
    return "number" if words[-1] in NUMBER_WORDS | _SOMEBODY else ""


def is_somebody(name: str) -> bool:
    """Return whether a name is nothing but a word for people, such as the key of linked tables often has.

    Examples
    --------
    >>> is_somebody("patient"), is_somebody("Household"), is_somebody("cost_per_patient"), is_somebody("insured")
    (True, True, False, False)
    """
    words = words_of(name)
    return len(words) == 1 and words[0] in _SOMEBODY - {"insured"}


def columns_of_persons(names: Iterable[str]) -> list[str]:
    """Return the columns whose names say that they may tell people apart: those of keys if there are some, otherwise those that name somebody.

    Examples
    --------
    >>> columns_of_persons(["guest_id", "repeat_guest", "age"]), columns_of_persons(["customer", "rooms"])
    (['guest_id'], ['customer'])
    >>> columns_of_persons(["patient_nbr", "booking_no", "number_of_rooms", "api_key"])
    ['patient_nbr']
    >>> columns_of_persons(["insured", "smoker"])
    []
    """
    keys, somebody = [], []
    for name in names:
        words = words_of(name)
        if not words:
            continue
        plain = words[-1] in _KEY - {"key"} or words[0] in _KEY - {"key"}
        if plain or (words[-1] in NUMBER_WORDS | _KEY and not _SOMEBODY.isdisjoint(words)):
            keys.append(name)
        elif words[-1] in _SOMEBODY and words != ["insured"]:
            somebody.append(name)
    return keys or somebody


def is_code_name(name: str) -> bool:
    """Whether a name says that numbers are codes.

    Examples
    --------
    >>> is_code_name("agent"), is_code_name("diag_1"), is_code_name("company_size")
    (True, True, False)
    """
    words = words_of(name)
    return bool(words) and words[-1] in _CODE


def is_year(name: str, low: int, high: int) -> bool:
    """Whether a column holds years: by its name, and between 1500 and 2200."""
    words = words_of(name)
    return bool(words) and words[-1] in ("year", "yr") and low >= 1500 and high <= 2200


def calendar_names(entries: list[str]) -> tuple[str, ...] | None:
    """Return all names of months or weekdays in their order, written as the entries are; None if they are not such names.

    Three different names are needed, because *may* and *sun* are words too.

    Examples
    --------
    >>> calendar_names(["Feb", "Jan", "Dec"])[:3]
    ('Jan', 'Feb', 'Mar')
    >>> calendar_names(["SUNDAY", "MONDAY", "FRIDAY"])[0], calendar_names(["may", "will"])
    ('MONDAY', None)
    """
    lowered = {entry.lower() for entry in entries}
    if len(lowered) < 3 or len(lowered) < len(entries):
        return None
    for names in (*MONTHS, *WEEKDAYS):
        if lowered <= set(names):
            for style in (str.lower, str.upper, str.title):
                if all(style(entry) == entry for entry in entries):
                    return tuple(map(style, names))
    return None


def are_codes(values: npt.NDArray[np.float64], counts: npt.NDArray[np.int64]) -> bool:
    """Whether whole numbers are codes by the look of their histogram, whatever their column is called.

    Numbers that measure or count something have a histogram in which neighbours are alike, or one that varies as chance
    makes it, or one that prefers round numbers. Codes have none of the three: a few are frequent, their neighbours are
    not, and most numbers of the range are in use.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> numbers, times = np.unique(rng.poisson(200, 20_000), return_counts=True)
    >>> are_codes(numbers.astype(float), times)
    False
    >>> shares = rng.permutation(1 / np.arange(1, 301) ** 1.5)
    >>> numbers, times = np.unique(rng.choice(300, 20_000, p=shares / shares.sum()), return_counts=True)
    >>> are_codes(numbers.astype(float), times)
    True
    """
    # How many have none of a thing, or the least or the most that is recorded, says nothing about its numbers.
    something = values != 0
    values, counts = values[something][1:-1], counts[something][1:-1]
    if len(values) < 50:
        return False
    rows = int(counts.sum())
    span = float(values[-1] - values[0]) + 1
    if rows < 5 * len(values) or len(values) < 0.3 * span:
        return False
    histogram = np.zeros(int(span))
    histogram[(values - values[0]).astype(np.int64)] = counts
    if histogram.var() < 5 * histogram.mean():
        return False
    sizes = np.log1p(histogram)
    tens = (np.arange(int(span)) + int(values[0])) % 5 == 0
    if sizes[tens].mean() - sizes[~tens].mean() > 0.5 * max(sizes.std(), 1e-12):
        return False
    return float(np.corrcoef(sizes[:-1], sizes[1:])[0, 1]) < 0.3
