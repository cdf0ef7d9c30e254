"""At most so many rows of each person, chosen inside the database by a keyed hash.

Let ``E`` be the encoded table with the ids of persons, and ``K`` a key drawn once from the curator's generator.
Rows of one person with the same encoded record are numbered 0, 1, ... (which gets which number makes no difference:
they are equal). Every row so has a name ``(record, number)`` that no other row of the person has. A person keeps the
``k`` rows whose ``MD5(K, record, number, id)`` is smallest; equal hashes are settled by record and number.

*Stability.* For every fixed key the rows kept of a person are a function of that person's rows and the key alone,
so the truncated table is a union over persons of functions of their own rows. Two tables that differ in the rows of
one person keep the same rows of everybody else, and differ in at most ``k`` rows of that person (twice ``k`` if the
person is replaced by another): exactly what holds for the local truncation for every fixed choice of its words.
The key is drawn without looking at the records, and a mechanism that is private for each key is private for a random
one. Nothing here rests on the hash: a bad hash, or a key that somebody reads in the query log of the server, may
favour some rows of a person over others and changes no guarantee.

*Fairness.* With MD5 as a random function of names, every set of ``k`` rows of a person is equally likely, as with
independent words for each row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from understudy.data._persons import check_max_rows
from understudy.data.table import Words
from understudy.errors import DataError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

KEY_WORDS = 4


def draw_key(words: Words) -> str:
    """Return a key of 256 bits from the curator's generator."""
    if not callable(words):
        raise DataError(
            "A table in a database is truncated with a source of random words, not with given ones."
        )
    drawn: npt.NDArray[np.uint64] = words(KEY_WORDS)
    return "".join(f"{int(word):016x}" for word in drawn)


def truncated(
    encoded: Any, *, person: str, packed: list[str], kept: list[str], max_rows: int, key: str
) -> Any:
    """Return the table with at most ``max_rows`` rows of each person.

    Parameters
    ----------
    encoded
        Expression with the words of the packed records and the ids.
    person
        Name of the column of ids.
    packed
        Names of the words.
    kept
        Names of the columns to return.
    max_rows
        Rows kept per person.
    key
        What `draw_key` returned.

    Privacy
    -------
    In and out: private. See the head of this module for the proof.
    """
    import ibis

    check_max_rows(max_rows)
    words = [encoded[name] for name in packed]
    same = ibis.window(group_by=[encoded[person], *words], order_by=[words[0]])
    numbered = encoded.mutate(_copy=ibis.row_number().over(same))
    name: Any = ibis.literal(key)
    for part in (*(numbered[word] for word in packed), numbered["_copy"]):
        name = name + ibis.literal(",") + part.cast("string")
    name = name + ibis.literal(",") + numbered[person].cast("string")
    hashed = numbered.mutate(_hash=_md5(name))
    order = [hashed["_hash"], *(hashed[word] for word in packed), hashed["_copy"]]
    ranked = hashed.mutate(
        _rank=ibis.row_number().over(ibis.window(group_by=[hashed[person]], order_by=order))
    )
    return ranked.filter(ranked["_rank"] < int(max_rows)).select(*kept)


def _md5(text: Any) -> Any:
    """Return the hexadecimal MD5 of text, a function of that name in every engine we know."""
    import ibis

    @ibis.udf.scalar.builtin(name="md5")
    def md5(text: str) -> str: ...  # type: ignore[empty-body]

    return md5(text)
