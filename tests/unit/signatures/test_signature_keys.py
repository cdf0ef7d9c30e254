"""Keys: for their owner alone, protected where wanted, trusted by decision."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from understudy.errors import SignatureError
from understudy.signatures import Keyring, PublicKey, Statement, open_keyring

SAID = Statement(
    meaning="signed", kind="file", hash="00" * 32, subject="a.txt", name="Ada Berg", date="2026-11-16"
)


def test_the_keys_lie_in_the_folder_of_the_user() -> None:
    ring = open_keyring()
    ring.new("ada", name="Ada Berg")
    assert ring.folder == Path(os.environ["UNDERSTUDY_HOME"]) / "keys"
    assert open_keyring().find().public.name == "Ada Berg"


def test_a_private_key_is_for_its_owner_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        ring = Keyring(tmp_path / "keys")
        ring.new("ada", name="Ada Berg")
    finally:
        os.umask(before)
    file = tmp_path / "keys" / "ada.pem"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "keys").stat().st_mode) == 0o700
    file.chmod(0o640)
    with pytest.raises(SignatureError, match="Others can read the private key"):
        ring.sign(SAID)


def test_a_passphrase_is_asked_for_only_where_there_is_one(tmp_path: Path) -> None:
    ring = Keyring(tmp_path)
    assert not ring.new("open", name="Ada Berg").encrypted
    assert ring.new("shut", name="Ada Berg", passphrase="long enough").encrypted

    def never() -> str:
        raise AssertionError("there is nothing to ask for")

    assert ring.sign(SAID, "open", passphrase=never).holds()
    assert ring.sign(SAID, "shut", passphrase=lambda: "long enough").holds()
    with pytest.raises(SignatureError, match="the passphrase is wrong"):
        ring.sign(SAID, "shut", passphrase=lambda: "another")
    with pytest.raises(SignatureError, match="none was given"):
        ring.sign(SAID, "shut")
    assert b"ENCRYPTED" in (tmp_path / "shut.pem").read_bytes()
    with pytest.raises(SignatureError, match="protects nothing"):
        ring.new("empty", name="Ada Berg", passphrase="")


def test_a_key_moves_to_another_machine(tmp_path: Path) -> None:
    here, there = Keyring(tmp_path / "here"), Keyring(tmp_path / "there")
    own = here.new("ada", name="Ada Berg", passphrase="long enough")
    moved = there.import_private(
        here.export_private("ada"), "work", name="Ada Berg", passphrase=lambda: "long enough"
    )
    assert (moved.public, moved.encrypted) == (own.public, True)
    with pytest.raises(SignatureError, match="damaged or no key"):
        there.import_private(b"-----BEGIN PRIVATE KEY-----\nAAAA\n", "bad", name="Ada Berg")


def test_a_label_is_taken_once_and_cannot_leave_the_folder(tmp_path: Path) -> None:
    ring = Keyring(tmp_path)
    ring.new("ada", name="Ada Berg")
    with pytest.raises(SignatureError, match="already"):
        ring.new("ada", name="Ada Berg")
    for label in ("../ada", "", "a/b", ".hidden", "a b"):
        with pytest.raises(SignatureError, match="label of a key"):
            ring.new(label, name="Ada Berg")


def test_which_key_is_meant(tmp_path: Path) -> None:
    ring = Keyring(tmp_path)
    with pytest.raises(SignatureError, match="no key yet"):
        ring.find()
    own = ring.new("ada", name="Ada Berg")
    assert ring.find() == ring.find("ada") == ring.find(own.public.fingerprint) == own
    ring.new("bo", name="Bo Ek")
    with pytest.raises(SignatureError, match="several keys"):
        ring.find()
    with pytest.raises(SignatureError, match="no key 'cy'"):
        ring.find("cy")


def test_a_key_is_foreign_until_it_is_trusted_and_after(tmp_path: Path) -> None:
    ada, bo = Keyring(tmp_path / "ada"), Keyring(tmp_path / "bo")
    own = ada.new("ada", name="Ada Berg")
    signed = ada.sign(SAID)
    mine, foreign = ada.trusted(signed), bo.trusted(signed)
    assert mine is not None
    assert mine.own
    assert foreign is None
    bo.trust(PublicKey.parse(own.public.to_text()), name="Ada of the office")
    known = bo.trusted(signed)
    assert known is not None
    assert (known.name, known.own) == ("Ada of the office", False)
    bo.distrust(own.public.fingerprint)
    assert bo.trusted(signed) is None
    with pytest.raises(SignatureError, match="No trusted key"):
        bo.distrust(own.public.fingerprint)
    with pytest.raises(SignatureError, match="your own key"):
        ada.distrust(own.public.fingerprint)


def test_a_trusted_key_that_was_exchanged_is_refused(tmp_path: Path) -> None:
    """A file under the fingerprint of one key with another key in it: nothing is trusted."""
    ada, bo, eve = (Keyring(tmp_path / name) for name in ("ada", "bo", "eve"))
    own, other = ada.new("ada", name="Ada Berg"), eve.new("eve", name="Ada Berg")
    bo.trust(own.public)
    file = tmp_path / "bo" / "trusted" / f"{own.public.fingerprint}.json"
    file.write_text(other.public.to_text())
    with pytest.raises(SignatureError, match="fingerprint differs"):
        bo.trusted(eve.sign(SAID))


def test_two_parts_that_do_not_belong_together_sign_nothing(tmp_path: Path) -> None:
    ring = Keyring(tmp_path)
    ring.new("ada", name="Ada Berg")
    bo = ring.new("bo", name="Bo Ek")
    (tmp_path / "ada.json").write_text(bo.public.to_text())
    with pytest.raises(SignatureError, match="do not belong together"):
        ring.sign(SAID, "ada")
