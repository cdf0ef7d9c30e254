"""Addresses of databases: what one is, and which hold a secret, as files that are passed around must not.

A schema file, a specification and a source in Python may name a database. What is refused, and in which words, is the same for all of them.
"""

from __future__ import annotations

import re
from urllib.parse import unquote_plus, urlsplit

__all__ = ["is_address", "secret_in"]

_SECRET = re.compile(
    r"pass|pwd|secret|token|credential|private|signature|authorization|bearer|scram"
    r"|(?:api|access|account|shared|master|encryption|auth|storage)key"
)
"""In the name of an option, in small letters and without punctuation: ``fs.azure.account.key.NAME`` is ``fsazureaccountkeyname``."""
_SECRET_PARTS = frozenset({"sas", "sig", "jwt", "pin", "pw"})
"""The same, where only a whole part of the name counts."""
_OPTION = re.compile(r"([^=?&;#,/\s]+)\s*=")
_PASSWORD = re.compile(r"//[^/?#@\s]*:[^/?#@\s]*@")
_SETTING = re.compile(
    r"(?:^|[\s;?&'\"(])(host|hostaddr|port|dbname|database|user|username|uid|server|driver|service|servicefile|options|application_name|connect_timeout"
    r"|client_encoding|target_session_attrs|channel_binding|krbsrvname|gssencmode|ssl\w+|oauth_\w+)[\"']?\s*=(?!=)",
    re.IGNORECASE,
)
"""A setting of a connection as client libraries read it: ``host=db``, ``User = 'a b'``, ``{Driver=...;Uid=...}``."""
_SECRET_SETTING = re.compile(
    r"(?:^|[\s;?&'\"(/\\])(?:(?:ssl)?pass(?:wd|word|phrase|file)|pwd|scram_\w+|oauth_\w*secret)[\"']?\s*=(?!=)",
    re.IGNORECASE,
)
"""A setting of which one is enough to tell a connection from the name of a file."""
_USER = re.compile(r"\s*['\"]?[\w.+%-]{2,}:[^\n]*@")
"""A user and a password before a host: more than a letter, so that it is no drive."""
_BEFORE_HOST = re.compile(r"[^/?#]*:[^/?#]*@")
_LAYERS = 5
"""How often an address is decoded at most; one that is encoded more often hides something."""
_ADVICE = (
    "Leave it out and let the driver find it: for PostgreSQL PGPASSWORD or a password file (PGPASSFILE, ~/.pgpass, "
    "a service in PGSERVICEFILE), for others their own environment variables and files. Change the password if "
    "this address was stored or logged."
)


def is_address(text: str) -> bool:
    """Say whether a text is meant as an address of a database rather than as the name of a file, however it is spelled.

    It holds ``://``, or a user with a password before a host, or settings as the client library of PostgreSQL reads them.

    Examples
    --------
    >>> is_address("host=db user=clerk"), is_address(" postgresql://db/registry"), is_address("clerk:swordfish@db")
    (True, True, True)
    >>> is_address("births.csv"), is_address("births/host=north/part.parquet"), is_address("C:\\\\a@b.csv")
    (False, False, False)
    """
    for written in _written(text):
        if "://" in written or _USER.match(written) or _SECRET_SETTING.search(written):
            return True
        if len({name.lower() for name in _SETTING.findall(written)}) > 1:
            return True
    return False


def _written(text: str) -> list[str]:
    """Return a text as it is and as it is decoded, layer by layer; more than `_LAYERS` of them where it is encoded more often."""
    written = [text]
    while len(written) <= _LAYERS and (plain := unquote_plus(written[-1])) != written[-1]:
        written.append(plain)
    return written


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
    written = _written(address)
    if len(written) > _LAYERS:
        return "The address of the database is percent-encoded several times over. Write it plainly; it is not shown."
    after = address.split("://", 1)[-1]
    host = re.split(r"[/?#]", after, maxsplit=1)[0]
    user = unquote_plus(host.rpartition("@")[0])
    before_host = any(_BEFORE_HOST.match(text.split("://", 1)[-1]) for text in written)
    if re.search(r":[^@]*@", after) or ":" in user or before_host or any(map(_PASSWORD.search, written)):
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
