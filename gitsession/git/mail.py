"""A ledger as a series of patches that ``git am`` takes.

``git format-patch`` writes it, each commit that changes something a mail.  Two things are done to it here.  The record
in the message, of use to nobody else, is left out.  And ``git am`` takes carriage returns away from the ends of lines,
so a mail that has such lines is sent quoted-printable, which it undoes.
"""

from __future__ import annotations

import re
from binascii import b2a_qp
from collections.abc import Iterator
from typing import Final

from gitsession.git.repo import Repo

# What a person's configuration may say otherwise is said here.
_OPTIONS: Final = (
    "--no-attach", "--no-thread", "--no-cover-letter", "--no-signoff", "--no-signature", "--no-notes", "--no-base",
    "--no-to", "--no-cc", "--no-add-header", "--no-from", "--no-numbered", "--subject-prefix=PATCH", "--encoding=UTF-8",
    "--encode-email-headers", "--binary", "--full-index", "--no-color", "--no-ext-diff",
    "--no-textconv", "--no-relative", "--ignore-submodules=none", "--submodule=short",
    "--src-prefix=a/", "--dst-prefix=b/",
)  # fmt: skip
# No line of a message of ours or of a diff can look like this.
_MAIL: Final = re.compile(rb"^(?=From [0-9a-f]{40,64} Mon Sep 17 00:00:00 2001\n)", re.MULTILINE)
_RECORD: Final = re.compile(rb"^Pinable-Record: .*\n", re.MULTILINE)
_ENCODING: Final = re.compile(rb"^(?:MIME-Version|Content-Type|Content-Transfer-Encoding): .*\n", re.MULTILINE)
_QUOTED: Final = (
    b"MIME-Version: 1.0\nContent-Type: text/plain; charset=UTF-8\nContent-Transfer-Encoding: quoted-printable\n"
)


def series(repo: Repo, head: str | None, tip: str) -> Iterator[bytes]:
    """The commits from after ``head`` (``None``: from the first) to ``tip``, a mail each, oldest first."""
    revisions = ["--root", tip] if head is None else [f"{head}..{tip}"]
    # 'git apply' overlooks a symbolic link that is renamed, and takes what comes in its place for a file behind it.
    renames = "--no-renames" if _has_links(repo, revisions) else "--find-renames"
    out = repo.git("format-patch", "--stdout", renames, *_OPTIONS, *revisions, "--")
    for mail in _MAIL.split(out):
        if mail:
            head_lines, _, body = mail.partition(b"\n\n")
            message, mark, diff = body.partition(b"\n---\n")
            yield _sendable(head_lines + b"\n", _RECORD.sub(b"", message + b"\n", count=1)[:-1] + mark + diff)


def _has_links(repo: Repo, revisions: list[str]) -> bool:
    """Whether a symbolic link comes, goes or changes in one of the commits."""
    raw = repo.git("log", "--format=", "--raw", "--no-abbrev", "--no-renames", "--root", *revisions, "--")
    return re.search(rb"^:(?:120000|\d+ 120000) ", raw, re.MULTILINE) is not None


def _sendable(head: bytes, body: bytes) -> bytes:
    if b"\r\n" in body:
        head = _ENCODING.sub(b"", head) + _QUOTED
        body = b"\n".join(b2a_qp(line, istext=False) for line in body.split(b"\n"))
    return head + b"\n" + body
