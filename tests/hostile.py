"""A session in which every text tries to be something else."""

from __future__ import annotations

from sessions import TestSession
from support import GitRepo

from gitsession import SessionStore

HOSTILE = (
    "</pre></code></style></title></script><script>alert(1)</script><img src=x onerror=alert(2)>"
    "{{ 7 * 7 }} {% raw %} ``` ~~~~ ```` [x](javascript:alert(3)) <!-- & &amp; \" ' | http://example.com @somebody #1"
)
"""One line, that Markdown, HTML and templates would like."""
NAME = b"<img src=x onerror=alert(4)>`|`[a](b).py"


def hostile_session(repo: GitRepo) -> str:
    """Its id: a session with ``HOSTILE`` as its task, descriptions, file names, findings and contents."""
    session = TestSession(repo, "hostile")
    repo.write(NAME, f"{HOSTILE}\n```\n# not a heading\n")
    repo.write("src/app.py", f"{HOSTILE}\n")
    repo.write("binary", bytes(range(256)))
    session.checkpoint(HOSTILE)
    repo.write("src/app.py", "\x1b[31mred\x1b[0m \u202egnp.exe\u202c\r\n" + "x" * 500 + "\n")
    repo.at(NAME).rename(repo.at("renamed"))
    session.checkpoint("\x1b]0;title\x07 " + HOSTILE)
    with SessionStore().edit(session.id) as draft:
        finding = {"severity": HOSTILE, "file": HOSTILE, "line": 3, "message": HOSTILE, "quote": HOSTILE}
        draft.log("findings", findings=[finding], dropped=[])
        draft.log("settings", values={"task": HOSTILE, "files": ["src/app.py", "not/started.py"], "model": HOSTILE})
    return session.id
