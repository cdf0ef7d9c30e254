"""Keys, approvals and signatures from the command line, as two people in an office use them."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest
from command import understudy

SPEC = """
name: tiny
source: {path: people.csv}
schema: {columns: [{name: a, kind: categorical, values: [x, y, z]}, {name: b, kind: boolean}]}
unit: replace-one
synthesizers: [{method: laplace}]
acceptance:
  form: pass-only
  epsilon: 1
  criteria: [{name: cells, kind: max-marginal-error, threshold: 0.9}]
selection: {rule: single}
budget: {total: {epsilon: 5}, model: {epsilon: 4}}
approvals: {required: [owner, lawyer]}
"""


def test_an_office_signs_and_a_reader_checks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    office, reader = str(tmp_path / "office"), str(tmp_path / "reader")
    monkeypatch.setenv("UNDERSTUDY_HOME", office)
    Path("spec.yaml").write_text(SPEC)
    pd.DataFrame({"a": ["x", "y", "z", "x"] * 100, "b": [True, False] * 200}).to_csv(
        "people.csv", index=False
    )
    refused = understudy("release", "spec.yaml", "--yes")
    assert refused.code == 4
    assert "owner: nobody approved it" in refused.err
    assert "US-SIGNATURE-02" in refused.err
    assert not Path("people.csv.ledger").exists()
    assert understudy("approve", "spec.yaml", "--as", "lawyer", "--name", "Bo Ek").code == 0

    monkeypatch.setenv("UNDERSTUDY_PASSPHRASE", "long enough")
    made = understudy("keys", "new", "ada", "--name", "Ada Berg", "--passphrase", "--json")
    fingerprint = json.loads(made.out)["fingerprint"]
    assert understudy("sign", "spec.yaml", "--as", "owner").code == 0
    assert understudy("keys", "export", "ada", "--out", "ada.json").code == 0
    assert "PRIVATE" not in Path("ada.json").read_text()
    listed = json.loads(understudy("keys", "list", "--json").out)
    assert [(row["fingerprint"], row["passphrase"]) for row in listed] == [(fingerprint, True)]
    done = understudy("release", "spec.yaml", "--yes")
    assert done.code == 0, done.err
    assert understudy("sign", "tiny-release", "--as", "owner").code == 0
    monkeypatch.setenv("UNDERSTUDY_PASSPHRASE", "wrong")
    assert "passphrase is wrong" in understudy("sign", "tiny-release").err
    monkeypatch.delenv("UNDERSTUDY_PASSPHRASE")
    assert "no terminal" in understudy("sign", "tiny-release").err

    monkeypatch.setenv("UNDERSTUDY_HOME", reader)
    seen = understudy("verify", "tiny-release")
    assert seen.code == 0
    assert "is intact" in seen.out
    assert "approved by Bo Ek as lawyer" in seen.out
    assert f"key {fingerprint} is NOT trusted here" in seen.out
    assert understudy("verify", "tiny-release", "--trusted").code == 4
    wrong = understudy("keys", "trust", "ada.json", "--fingerprint", "0" * 32)
    assert wrong.code == 4
    assert understudy("keys", "trust", "ada.json", "--fingerprint", fingerprint).code == 0
    seen = understudy("verify", "tiny-release", "--trusted")
    assert seen.code == 0
    assert "trusted here as 'Ada Berg'" in seen.out
    plain = json.loads(understudy("verify", "tiny-release", "--json").out)
    assert [item["statement"]["role"] for item in plain["approvals"]] == ["lawyer", "owner"]
    assert plain["signatures"][0]["trusted_as"] == "Ada Berg"
    assert plain["signatures"][0]["statement"]["hash"] == plain["subject"]["hash"]

    (signature,) = Path().glob("tiny-release.signature-*.json")
    signature.write_text(signature.read_text().replace("Ada Berg", "Eve Berg"))
    broken = understudy("verify", "tiny-release")
    assert broken.code == 4
    assert "DOES NOT HOLD: the signature is not by the key it names" in broken.err
    signature.unlink()
    assert "Nobody signed it" in understudy("verify", "tiny-release").out
    assert understudy("verify", "spec.yaml").code == 0
    assert understudy("keys", "distrust", fingerprint).code == 0
    assert understudy("verify", "nowhere").code == 4


def test_a_key_moves_and_is_said_to_be_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNDERSTUDY_HOME", str(tmp_path / "one"))
    assert understudy("keys", "new", "ada", "--name", "Ada Berg").code == 0
    out = tmp_path / "ada.pem"
    assert understudy("keys", "export", "ada", "--private", "--out", out).code == 0
    assert out.stat().st_mode & 0o777 == 0o600
    assert understudy("keys", "export", "ada", "--private", "--out", out).code == 6
    monkeypatch.setenv("UNDERSTUDY_HOME", str(tmp_path / "two"))
    assert understudy("keys", "import", out, "work", "--name", "Ada Berg").code == 0
    assert understudy("keys", "import", tmp_path / "none.pem", "more", "--name", "Ada Berg").code == 4
    assert "work" in understudy("keys", "list").out
