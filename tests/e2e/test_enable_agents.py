"""``pinable-agents enable``, and then the real agents: each calls the hooks that were written, and a session has what
the files say.

The agents talk to a server on loopback that plays a script.  Skipped where an agent is not installed
(``agents/installed.py``).
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
from agents import installed
from agents.places import PATIENCE
from agents.wire_chat import ChatCompletions
from agents.wire_gemini import GenerateContent
from agents.wire_responses import Responses, shell
from backends.model_server import ModelServer, Step, Wire, call, say, step, wait_for
from support import GitRepo, program

from gitsession.store import hooklog
from gitsession.store.sessions import SessionStore
from gitsession.verbs.agentsettings import commands

KEY = "sk-test-0123456789abcdef"


class Place:
    """A repository, a home of the agents' own, and a server between which a real agent is run."""

    def __init__(self, repo: GitRepo, home: Path) -> None:
        self.repo = repo
        self.home = home
        self.store = SessionStore(home / ".pinable-agents")
        self.variables: dict[str, str] = {}
        self._servers: list[ModelServer] = []

    def serve(self, wire: Wire | None, *script: Step) -> str:
        """The server's address."""
        self._servers.append(ModelServer(script, wire))
        return self._servers[-1].__enter__().url

    def close(self) -> None:
        for server in self._servers:
            server.__exit__()

    def environment(self) -> dict[str, str]:
        config = {"GIT_CONFIG_GLOBAL": os.environ["GIT_CONFIG_GLOBAL"]}
        return installed.environment(self.home, **config, **self.variables)

    def start(self, *command: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            command,
            cwd=self.repo.path,
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *command: str, status: int = 0) -> str:
        process = self.start(*command)
        out, err = process.communicate(timeout=PATIENCE)
        assert process.returncode == status, (command, out[-2000:], err[-2000:])
        return out

    def pinable(self, *arguments: str, status: int = 0) -> Any:
        return json.loads(self.run(program("pinable-agents"), *arguments, "--json", status=status))

    def status(self, agent: str, status: int = 0) -> dict[str, Any]:
        found = {one["agent"]: one for one in self.pinable("status", status=status)}
        return dict(found[agent])

    def session(self) -> dict[str, Any]:
        """The only one there is."""
        (session_id,) = self.store.ids()
        return self.store.read(session_id)

    def checkpoints(self) -> list[dict[str, Any]]:
        return list(self.session()["checkpoints"]) if self.store.ids() else []

    def tree(self) -> dict[str, bytes]:
        """The files of the newest checkpoint."""
        there = self.repo.tree(self.checkpoints()[-1]["commit"])
        return {os.fsdecode(path): self.repo.git_bytes("cat-file", "blob", oid) for path, (_, oid) in there.items()}


@pytest.fixture
def place(repo: GitRepo, seal: Path) -> Iterator[Place]:
    repo.write(".gitignore", ".claude/\n.codex/\n.gemini/\n.opencode/\nopencode.json\n")
    repo.commit("Settings are mine")
    made = Place(repo, seal)
    yield made
    made.close()


def files(place: Place) -> dict[str, bytes]:
    """What is on the disk and not ignored."""
    listed = place.repo.git("ls-files", "--cached", "--others", "--exclude-standard").splitlines()
    return {path: place.repo.at(path).read_bytes() for path in listed}


pytestmark = [pytest.mark.agents, pytest.mark.timeout(installed.TEST_TIMEOUT)]


def needs(agent: str) -> pytest.MarkDecorator:
    return installed.needed(agent)[-1]


def enabled(place: Place, agent: str) -> None:
    (done,) = place.pinable("enable", "--agent", agent)
    assert (done["agent"], done["state"]) == (agent, "enabled")


# Claude Code


def claude(place: Place, prompt: str, *flags: str) -> list[str]:
    words = ["claude", "-p", prompt, "--output-format", "stream-json", "--verbose", "--permission-mode", "acceptEdits"]
    return [*words, "--allowedTools", "Bash", *flags]


def claude_server(place: Place, *script: Step) -> None:
    place.variables |= {
        "ANTHROPIC_BASE_URL": place.serve(None, *script),
        "ANTHROPIC_API_KEY": KEY,
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    }


@needs("claude-code")
def test_claude_code(place: Place) -> None:
    """Three prompts, five edits, an edit by a command, and a kill."""

    def write(name: str) -> Step:
        return step(call("Write", file_path=str(place.repo.at(name)), content=f"{name} by Claude\n"))

    claude_server(
        place,
        write("one.txt"),
        write("two.txt"),
        step(say("First.")),
        write("three.txt"),
        step(call("Bash", command="echo more >> one.txt; echo new > made.txt", description="Append")),
        step(say("Second.")),
        write("four.txt"),
        write("five.txt"),
        step(say("Never said."), delay=600),
    )
    before = place.repo.snapshot()
    enabled(place, "claude-code")
    assert place.status("claude-code")["state"] == "runs"
    lines = place.run(*claude(place, "the first prompt")).splitlines()
    native = json.loads(lines[0])["session_id"]
    place.run(*claude(place, "the second prompt", "--resume", native))
    assert place.tree() == files(place)
    killed = place.start(*claude(place, "the third prompt", "--resume", native))
    try:
        wait_for(lambda: "five.txt" in (place.tree() if place.checkpoints() else {}), PATIENCE)
    finally:
        killed.kill()
        killed.communicate()
    assert place.tree() == files(place)
    assert files(place)["one.txt"] == b"one.txt by Claude\nmore\n"
    changed = [checkpoint["files_changed"] for checkpoint in place.checkpoints() if checkpoint.get("call")]
    assert changed == [["one.txt"], ["two.txt"], ["three.txt"], ["made.txt", "one.txt"], ["four.txt"], ["five.txt"]]
    assert place.session()["agents"][-1]["id"] == native
    assert hooklog.read(place.store.home) == []
    place.pinable("disable")
    for name in ("one", "two", "three", "four", "five", "made"):
        place.repo.at(f"{name}.txt").unlink()
    assert place.repo.snapshot() == before


# Codex


def codex_config(place: Place, url: str) -> None:
    config = place.home / ".codex" / "config.toml"
    config.parent.mkdir()
    config.write_text(
        'model = "test-model"\nmodel_provider = "loopback"\n[model_providers.loopback]\nname = "loopback"\n'
        f'base_url = "{url}/v1"\nenv_key = "LOOPBACK_KEY"\nwire_api = "responses"\n'
    )
    place.variables["LOOPBACK_KEY"] = KEY


def trust_folder(place: Place) -> None:
    """As a person does when Codex asks."""
    with (place.home / ".codex" / "config.toml").open("a") as config:
        config.write(f'[projects."{place.repo.path}"]\ntrust_level = "trusted"\n')


def trust_hooks(place: Place) -> None:
    """As Codex itself does when a person trusts all of its hooks."""
    process = subprocess.Popen(
        ["codex", "app-server"],
        cwd=place.repo.path,
        env=place.environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None

    def ask(number: int, method: str, params: Mapping[str, Any]) -> Any:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps({"id": number, "method": method, "params": params}) + "\n")
        process.stdin.flush()
        return next(found for line in process.stdout if (found := json.loads(line)).get("id") == number)["result"]

    with process:
        ask(0, "initialize", {"clientInfo": {"name": "test", "version": "1"}})
        (found,) = ask(1, "hooks/list", {"cwds": [str(place.repo.path)]})["data"]
        state = {hook["key"]: {"trusted_hash": hook["currentHash"]} for hook in found["hooks"]}
        assert state
        edit = {"keyPath": "hooks.state", "value": state, "mergeStrategy": "upsert"}
        ask(2, "config/batchWrite", {"edits": [edit]})


def codex(*arguments: str) -> list[str]:
    return ["codex", "exec", "--json", "--dangerously-bypass-approvals-and-sandbox", *arguments]


@needs("codex")
def test_codex(place: Place) -> None:
    """The same, by commands, which is how Codex edits; and it is a person who trusts the hooks."""

    def write(name: str) -> Step:
        return step(shell(f"echo '{name} by Codex' > {name}"))

    url = place.serve(
        Responses(),
        write("one.txt"),
        write("two.txt"),
        step(say("First.")),
        write("three.txt"),
        step(shell("echo more >> one.txt; echo new > made.txt")),
        step(say("Second.")),
        write("four.txt"),
        write("five.txt"),
        step(say("Never said."), delay=600),
    )
    codex_config(place, url)
    before = place.repo.snapshot()
    enabled(place, "codex")
    assert "does not load hooks of this folder" in place.status("codex", 1)["detail"]
    trust_folder(place)
    assert "skips 7 of 7 hooks" in place.status("codex", 1)["detail"]
    trust_hooks(place)
    found = place.status("codex")
    assert (found["state"], found["trusted"]) == ("runs", True)
    lines = place.run(*codex("the first prompt")).splitlines()
    native = next(line["thread_id"] for line in map(json.loads, lines) if line["type"] == "thread.started")
    place.run(*codex("resume", native, "the second prompt"))
    assert place.tree() == files(place)
    killed = place.start(*codex("resume", native, "the third prompt"))
    try:
        wait_for(lambda: "five.txt" in place.tree(), PATIENCE)
    finally:
        # What is started as codex is a launcher, which does not take the program with it.
        for process in [*psutil.Process(killed.pid).children(recursive=True), killed]:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        killed.communicate()
    assert place.tree() == files(place)
    assert files(place)["one.txt"] == b"one.txt by Codex\nmore\n"
    changed = [checkpoint["files_changed"] for checkpoint in place.checkpoints() if checkpoint.get("call")]
    assert changed == [["one.txt"], ["two.txt"], ["three.txt"], ["made.txt", "one.txt"], ["four.txt"], ["five.txt"]]
    assert place.session()["agents"][-1]["id"] == native
    assert hooklog.read(place.store.home) == []
    place.pinable("enable", "--agent", "codex", "--shared")
    assert place.status("codex", 1)["state"] in ("skipped", "broken")
    place.pinable("disable")
    for name in ("one", "two", "three", "four", "five", "made"):
        place.repo.at(f"{name}.txt").unlink()
    assert place.repo.snapshot() == before


# Gemini CLI and opencode


GEMINI = ["gemini", "-m", "gemini-2.5-pro", "-p", "a prompt", "-y", "-o", "stream-json"]


def gemini_home(place: Place, url: str) -> Path:
    place.variables |= {"GEMINI_API_KEY": KEY, "GOOGLE_GEMINI_BASE_URL": url}
    own = place.home / ".gemini"
    own.mkdir()
    (own / "settings.json").write_text('{"security": {"auth": {"selectedType": "gemini-api-key"}}}')
    return own


@needs("gemini")
def test_gemini(place: Place) -> None:
    url = place.serve(
        GenerateContent(),
        step(call("write_file", file_path=str(place.repo.at("one.txt")), content="one\n")),
        step(call("run_shell_command", command="echo two > two.txt")),
        step(say("Done.")),
    )
    own = gemini_home(place, url)
    settings = place.repo.write(".gemini/settings.json", '// mine\n{\n  "ui": {} // nothing yet\n}\n')
    before = settings.read_bytes()
    enabled(place, "gemini")
    found = place.status("gemini", 1)
    assert (found["state"], found["trusted"]) == ("skipped", False)
    place.run(*GEMINI, status=55)
    place.run(*GEMINI, "--skip-trust")
    assert place.checkpoints() == []
    place.repo.at("one.txt").unlink()
    place.repo.at("two.txt").unlink()
    (own / "trustedFolders.json").write_text(json.dumps({str(place.repo.path): "TRUST_FOLDER"}))
    found = place.status("gemini")
    assert (found["state"], found["trusted"]) == ("runs", True)
    place.run(*GEMINI)
    assert place.tree() == files(place)
    assert [one["files_changed"] for one in place.checkpoints() if one.get("call")] == [["one.txt"], ["two.txt"]]
    assert hooklog.read(place.store.home) == []
    # It takes a program that is not there for a hook that forbids the prompt.
    python = commands.local("gemini").python
    assert python is not None
    settings.write_text(settings.read_text().replace(python, "/gone/python3"))
    assert "Done." in place.run(*GEMINI)
    place.pinable("enable", "--agent", "gemini")
    place.pinable("disable")
    assert settings.read_bytes() == before


@needs("opencode")
@pytest.mark.slow
def test_opencode(place: Place) -> None:
    """It looks for a package of its own in the npm registry before it loads a plugin, and goes on without it."""
    place.variables |= {"npm_config_registry": "http://127.0.0.1:1/", "npm_config_fetch_retries": "0"}
    url = place.serve(
        ChatCompletions(),
        step(call("write", filePath=str(place.repo.at("one.txt")), content="one\n")),
        step(call("bash", command="echo two > two.txt", description="Write")),
        step(say("Done.")),
    )
    options = {"baseURL": f"{url}/v1", "apiKey": KEY}
    loopback = {"npm": "@ai-sdk/openai-compatible", "options": options, "models": {"test-model": {}}}
    place.repo.write("opencode.json", json.dumps({"provider": {"loopback": loopback}, "model": "loopback/test-model"}))
    enabled(place, "opencode")
    assert place.status("opencode")["state"] == "runs"
    place.run("opencode", "run", "--format", "json", "a prompt")
    assert place.tree() == files(place)
    assert [one["files_changed"] for one in place.checkpoints() if one.get("call")] == [["one.txt"], ["two.txt"]]
    assert hooklog.read(place.store.home) == []
    place.pinable("disable")
    assert not place.repo.at(".opencode/plugins").exists()
