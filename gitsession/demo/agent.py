"""A scripted agent: it moves the SQL of Go modules into repositories, file by file.

A program of its own that needs nothing but Python: the ``command`` backend runs it like any other.  For every file
``db.go`` it is given it

- writes ``repository.go`` beside it: an interface ``Repository``, and a ``SQLRepository`` whose methods the functions
  become, and
- rewrites ``db.go`` so that each former function only calls its method: callers need no change.

Where it stands it sees from the files, so a second run goes on where the first one ended.  ``--lose-network-in FILE``
makes it fail at that file as if its model could not be reached, unless it has been resumed.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

# A function that gets the database handed in; gofmt puts its closing brace alone at the start of a line.
FUNCTION = re.compile(
    r"(?P<doc>(?:^//.*\n)*)"
    r"^func (?P<name>\w+)\(ctx context\.Context, db \*sql\.DB(?P<parameters>[^)]*)\) (?P<results>.+) \{\n"
    r"(?P<body>(?:.*\n)*?)"
    r"^\}\n",
    re.MULTILINE,
)
IMPORTS = re.compile(r"^import \((?P<paths>[^)]*)\)\n", re.MULTILINE)
PACKAGE = re.compile(r"^package (\w+)$", re.MULTILINE)
HEAD = """\
// Repository is the storage that package PACKAGE needs.
type Repository interface {
INTERFACE}

// SQLRepository is a Repository in a SQL database.
type SQLRepository struct {
\tdb *sql.DB
}

var _ Repository = (*SQLRepository)(nil)

// NewSQLRepository returns the Repository in db.
func NewSQLRepository(db *sql.DB) *SQLRepository {
\treturn &SQLRepository{db: db}
}
"""

# What the text would cost if a model had read and written it: about four characters a token, US dollars a token.
CHARACTERS_A_TOKEN = 4
INPUT_PRICE, OUTPUT_PRICE = 5e-6, 25e-6


class AgentError(Exception):
    """The agent cannot go on; the text says why."""


@dataclass(frozen=True)
class Function:
    """One Go function that takes the database as a parameter; ``parameters`` come after ``ctx`` and ``db``."""

    doc: str
    name: str
    parameters: str
    results: str
    body: str

    @property
    def signature(self) -> str:
        """The method's: the database is the receiver's business."""
        return f"{self.name}(ctx context.Context{self.parameters}) {self.results}"

    @property
    def call(self) -> str:
        """The statement that hands everything on to the method."""
        names = [part.split()[0] for part in self.parameters.split(",") if part.strip()]
        return f"\treturn NewSQLRepository(db).{self.name}({', '.join(['ctx', *names])})\n"

    @property
    def moved(self) -> bool:
        return self.body == self.call


@dataclass(frozen=True)
class Module:
    """One ``db.go`` and the ``repository.go`` beside it."""

    path: Path

    @property
    def name(self) -> str:
        return self.path.parent.name

    @property
    def repository(self) -> Path:
        return self.path.with_name("repository.go")

    def source(self) -> str:
        try:
            return self.path.read_text(encoding="utf-8")
        except OSError as error:
            raise AgentError(f"cannot read {self.path}: {error.strerror}") from None

    def to_move(self) -> list[Function]:
        """The functions whose bodies still talk SQL."""
        return [function for function in functions(self.source()) if not function.moved]


def functions(source: str) -> list[Function]:
    """The functions of a Go file that take the database as a parameter, in order."""
    return [Function(**match.groupdict()) for match in FUNCTION.finditer(source)]


def repository_source(source: str) -> str:
    """The text of ``repository.go`` for the ``db.go`` whose text is ``source``."""
    package = PACKAGE.search(source)
    if package is None:
        raise AgentError("a Go file without a package clause")
    found = functions(source)
    interface = "".join(f"\t{function.signature}\n" for function in found)
    head = HEAD.replace("PACKAGE", package[1]).replace("INTERFACE", interface)
    code = "\n".join([head, *(method(function, found) for function in found)])
    return f"package {package[1]}\n\n{imports(imported(source), code)}\n{code}"


def method(function: Function, siblings: Iterable[Function]) -> str:
    """``function`` as a method of ``SQLRepository``; its calls of siblings become calls of their methods."""
    body = re.sub(r"\bdb\.", "r.db.", function.body)
    for sibling in siblings:
        body = re.sub(rf"\b{sibling.name}\(ctx, db\b", f"r.{sibling.name}(ctx", body)
    return f"{function.doc}func (r *SQLRepository) {function.signature} {{\n{body}}}\n"


def remaining_source(source: str) -> str:
    """The text of ``db.go`` once its functions only call their methods."""

    def shorten(match: re.Match[str]) -> str:
        return match[0].replace(match["body"], Function(**match.groupdict()).call)

    code = FUNCTION.sub(shorten, source)
    used = imports(imported(source), IMPORTS.sub("", code))
    return IMPORTS.sub(used.replace("\\", "\\\\"), code)


def imported(source: str) -> list[str]:
    """The paths that a Go file imports."""
    block = IMPORTS.search(source)
    return re.findall(r'"([^"]+)"', block["paths"]) if block else []


def imports(available: Iterable[str], code: str) -> str:
    """The import block for those of the ``available`` paths that ``code`` uses."""
    code = re.sub(r"//.*", "", code)
    used = [path for path in available if re.search(rf"\b{path.rsplit('/', 1)[-1]}\.", code)]
    return "import (\n" + "".join(f'\t"{path}"\n' for path in used) + ")\n"


def write(path: Path, text: str) -> None:
    """Replace a file in one step: whoever stops the agent leaves the old text or the new one."""
    aside = path.with_name(path.name + ".new")
    aside.write_text(text, encoding="utf-8")
    aside.replace(path)


def refactor(module: Module) -> None:
    """``repository.go`` first: until ``db.go`` is replaced, the work on this module can be done again from it."""
    source = module.source()
    repository, remaining = repository_source(source), remaining_source(source)
    write(module.repository, repository)
    write(module.path, remaining)
    spent(read=source, written=repository + remaining)


def review(modules: Iterable[Module]) -> None:
    """Every function is moved, and every method that ``db.go`` calls exists."""
    for module in modules:
        if left := module.to_move():
            raise AgentError(f"review: {module.path}: {left[0].name} still talks SQL")
        repository = module.repository.read_text(encoding="utf-8")
        for function in functions(module.source()):
            if f"func (r *SQLRepository) {function.signature} {{\n" not in repository:
                raise AgentError(f"review: {module.repository}: no method {function.name}")
        spent(read=module.source() + repository, written="")


def say(kind: str, *words: str) -> None:
    """One line of the protocol, at once."""
    sys.stdout.write("::" + "::".join([kind, *words]) + "\n")
    sys.stdout.flush()


def keep(description: str) -> None:
    """A checkpoint of the files as they are now; goes on when it is taken."""
    say("checkpoint", description)
    if "PINABLE_ACK" in os.environ:
        with open(os.environ["PINABLE_ACK"], encoding="ascii") as taken:
            taken.readline()


def spent(read: str, written: str) -> None:
    """Report the tokens and dollars that reading and writing these texts would have cost a model."""
    tokens_in, tokens_out = len(read) // CHARACTERS_A_TOKEN, len(written) // CHARACTERS_A_TOKEN
    cost = tokens_in * INPUT_PRICE + tokens_out * OUTPUT_PRICE
    say("tokens", f"in={tokens_in},out={tokens_out},cost={cost:.6f}")


def work(modules: list[Module], *, resumed: bool, lose_network_in: str | None) -> None:
    """The whole task, or what is left of it."""
    if not resumed:
        say("phase", "analysis", f"Analyzing {len(modules)} files...")
        spent(read="".join(module.source() for module in modules), written="")
        count = sum(len(module.to_move()) for module in modules)
        say("done", f"Identified {count} functions to refactor")
        keep("Saved analysis results")
    for module in modules:
        if not module.to_move():
            continue
        say("phase", "implementation", f"Refactoring {module.path}...")
        if not resumed and str(module.path) == lose_network_in:
            raise AgentError("CONNECTION ERROR: network timeout after 30s")
        refactor(module)
        say("done", f"Created {module.repository}")
        keep(f"Saved {module.name} module changes")
    say("phase", "review", "Running code review...")
    review(modules)
    say("done", "No critical issues found")


def main() -> int:
    parser = argparse.ArgumentParser(description="Refactor the Go files in $PINABLE_FILES to the Repository pattern.")
    parser.add_argument("--lose-network-in", metavar="FILE", help="fail at this file, unless resumed")
    options = parser.parse_args()
    modules = [Module(Path(name)) for name in os.environ.get("PINABLE_FILES", "").splitlines()]
    try:
        work(modules, resumed=bool(os.environ.get("PINABLE_RESUME")), lose_network_in=options.lose_network_in)
    except AgentError as error:
        say("error", str(error))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
