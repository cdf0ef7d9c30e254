"""Addresses of databases that hold a secret: files that are passed around must not.

A schema file, a specification and a source in Python may name a database. What is refused, and in which words, is the same for all of them.
"""

from __future__ import annotations

import re
from urllib.parse import unquote_plus, urlsplit

__all__ = ["secret_in"]

_SECRET = re.compile(
    r"pass|pwd|secret|token|credential|private|signature|authorization|bearer"
    r"|(?:api|access|account|shared|master|encryption|auth|storage)key"
)
"""In the name of an option, in small letters and without punctuation: ``fs.azure.account.key.NAME`` is ``fsazureaccountkeyname``."""
_SECRET_PARTS = frozenset({"sas", "sig", "jwt", "pw"})
"""The same, where only a whole part of the name counts."""
_OPTION = re.compile(r"([^=?&;#,/\s]+)\s*=")
_PASSWORD = re.compile(r"//[^/?#@\s]*:[^/?#@\s]*@")
_LAYERS = 5
"""How often an address is decoded at most; one that is encoded more often hides something."""
_ADVICE = (
    "Leave it out and let the driver find it: for PostgreSQL PGPASSWORD or a password file (PGPASSFILE, ~/.pgpass, "
    "a service in PGSERVICEFILE), for others their own environment variables and files. Change the password if "
    "this address was stored or logged."
)


def secret_in(address: str) -> str:
    """Say what is wrong with an address that holds a password, wherever it stands and however it is encoded, without showing it; empty if nothing is.

    Looks at the user before the host (also that of an address within an option) and at the names of options, wherever
    something is set by ``name=value``. Values are not judged: what a secret looks like, nobody can say.

    Examples
    --------
    >>> secret_in("postgresql://clerk@db.example/registry")
    ''
    >>> secret_in("postgresql://clerk:swordfish@db.example/registry").partition(".")[0]
    'The address of the database holds a password'
    """
    written = [address]
    while len(written) <= _LAYERS and (plain := unquote_plus(written[-1])) != written[-1]:
        written.append(plain)
    if len(written) > _LAYERS:
        return "The address of the database is percent-encoded several times over. Write it plainly; it is not shown."
    after = address.split("://", 1)[-1]
    host = re.split(r"[/?#]", after, maxsplit=1)[0]
    user = unquote_plus(host.rpartition("@")[0])
    if re.search(r":[^@]*@", after) or ":" in user or any(_PASSWORD.search(text) for text in written):
        return f"The address of the database holds a password. {_ADVICE}"
    names = [name for text in written for name in _OPTION.findall(text.split("://", 1)[-1])]
    if any(_is_secret(name) for name in names):
        return f"The address of the database holds an option that looks like a secret. {_ADVICE}"
    try:
        urlsplit(address)
    except ValueError:  # its error shows the address
        return "The address of the database cannot be read as a URL. It is not shown: it may hold secrets."
    return ""


def _is_secret(name: str) -> bool:
    parts = [part for part in re.split(r"[^a-z0-9]+", name.lower()) if part]
    return parts == ["key"] or bool(_SECRET.search("".join(parts)) or _SECRET_PARTS.intersection(parts))
