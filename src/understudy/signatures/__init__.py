"""Who stands for what: keys, signed and typed statements about bundles, specifications, ledger heads and files.

A statement names one thing by its hash, and a person by name; a signature shows that the holder of a key made it.
"""

from understudy.signatures.files import (
    read_statement,
    statement_files,
    statements_beside,
    write_statement,
)
from understudy.signatures.keys import (
    Keyring,
    OwnKey,
    PublicKey,
    TrustedKey,
    open_keyring,
)
from understudy.signatures.statement import (
    KINDS,
    MEANINGS,
    ROLES,
    Signature,
    Statement,
    parse_statement,
    statement_from_dict,
)

__all__ = [
    "KINDS",
    "MEANINGS",
    "ROLES",
    "Keyring",
    "OwnKey",
    "PublicKey",
    "Signature",
    "Statement",
    "TrustedKey",
    "open_keyring",
    "parse_statement",
    "read_statement",
    "statement_files",
    "statement_from_dict",
    "statements_beside",
    "write_statement",
]
