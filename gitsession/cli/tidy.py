"""``python -m gitsession.cli.tidy``: the daily cleaning up, as ``gitsession.cli.startup`` starts it; says nothing."""

from __future__ import annotations

import time
from contextlib import suppress

from gitsession import config
from gitsession.errors import GitSessionError
from gitsession.store.sessions import SessionStore
from gitsession.verbs.tidy import tidy


def main() -> None:
    store = SessionStore()
    # Whoever starts a program next is told what was done; what could not be done is tried again tomorrow.
    with suppress(GitSessionError):
        tidy(store, config.load(store.home), time.time())


if __name__ == "__main__":
    main()
