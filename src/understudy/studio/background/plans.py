"""Plans of models on very many columns, which take longer than anybody waits for a page."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from understudy.release.spec.spec import Spec
from understudy.studio.background.jobs import Jobs, State
from understudy.studio.folder import Folder

__all__ = ["Plans"]

_AT_ONCE = 2


class Plans(Jobs):
    """The plans of a folder's designs: at most one at a time for each design, that of the newest version."""

    def __init__(self, folder: Folder) -> None:
        super().__init__(folder, kind="plans", at_once=_AT_ONCE)
        self._newest: dict[str, str] = {}

    @staticmethod
    def key(spec: Spec) -> str:
        """Return the name of a plan: a digest of all that decides what a release does, and what would be planned on."""
        text = f"{spec.fingerprint()} {spec.expected_rows}"
        return hashlib.sha256(text.encode()).hexdigest()[:40]

    def planned(self, design: str, spec: Spec, *, begin: bool) -> tuple[Mapping[str, Any] | None, State]:
        """Return the plan of a specification, if it was made, and how it stands; begin it if it was not.

        Parameters
        ----------
        design
            Whose plan it is: one of an earlier version is given up.
        begin
            Whether to begin it.
        """
        key = self.key(spec)
        found = self._result(key)
        if found is not None:
            return found, State("done")
        state = self.state(key)
        if state.kind in ("running", "failed") or not begin:
            return None, state
        before = self._newest.get(design)
        if before is not None and before != key:
            self.cancel(before)
        self._newest[design] = key
        begun = self.begin(key, {"spec": spec.to_dict(), "where": str(self.folder.designs)})
        return None, self.state(key) if begun else State("waiting", "Plans of other designs come first.")
