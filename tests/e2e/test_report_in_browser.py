"""The HTML report in a real browser: nothing goes wrong, nothing is fetched, and it can be read by anybody."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from browser import Page, chromium
from hostile import HOSTILE, hostile_session
from support import GitRepo, run_cli

AXE = "axe-core@4.10.3"
ARTIFACTS = Path(__file__).parent.parent.parent / "artifacts"
pytestmark = pytest.mark.skipif(chromium() is None, reason="there is no Chromium here (apt-get install chromium)")


@pytest.fixture
def report(repo: GitRepo, tmp_path: Path) -> Path:
    """The report of a session whose every text is an attack."""
    file = tmp_path / "report.html"
    done = run_cli("pinable-agents", "session", "export", hostile_session(repo), "-o", file)
    assert (done.returncode, done.stdout) == (0, "")
    return file


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with Page(str(chromium()), tmp_path_factory.mktemp("profile")) as page:
        yield page


@pytest.fixture
def page(browser: Page) -> Page:
    """The browser's page, which has forgotten the test before."""
    browser.open("about:blank")
    browser.emulate(scheme="light", width=1000)
    browser.events.clear()
    return browser


def axe_core() -> str:
    """The checker's script, from npm's registry and kept for the next time; the test is skipped without it."""
    script = Path(tempfile.gettempdir()) / f"gitsession-{AXE}.min.js"
    if not script.exists():
        if shutil.which("npm") is None:
            pytest.skip("axe cannot be had: there is no npm here")
        with tempfile.TemporaryDirectory(prefix="gitsession-axe-", dir=script.parent) as place:
            command = ["npm", "install", "--no-save", "--silent", "--prefix", place, AXE]
            try:
                subprocess.run(command, check=True, capture_output=True, timeout=60)
            except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
                pytest.skip("axe cannot be had: npm could not install it")
            # Tests beside this one want it, too: it comes whole or not at all.
            Path(place, "node_modules", "axe-core", "axe.min.js").replace(script)
    return script.read_text(encoding="utf-8")


def test_it_loads_nothing_and_runs_nothing(report: Path, page: Page) -> None:
    page.open(report.as_uri())
    assert [request["documentURL"] for request in page.told("Network.requestWillBeSent")] == [report.as_uri()]
    assert page.told("Log.entryAdded", "Runtime.exceptionThrown", "Runtime.consoleAPICalled") == []
    assert page.told("Page.javascriptDialogOpening") == []
    assert (
        page.evaluate("document.querySelectorAll('script, img, iframe, object, form, [onerror], [onload]').length") == 0
    )
    assert page.evaluate("document.querySelector('#task + pre').textContent") == HOSTILE
    # The style is the one that the policy names.
    assert page.evaluate("getComputedStyle(document.querySelector('pre')).overflowX") == "auto"


def test_the_policy_forbids_what_escaping_might_miss(report: Path, page: Page) -> None:
    text = report.read_text(encoding="utf-8")
    report.write_text(text.replace("<main>", "<main><script>window.ran = 1</script><img src='http://127.0.0.1:9/x'>"))
    page.open(report.as_uri())
    assert page.evaluate("window.ran") is None
    page.wait_for("Log.entryAdded")
    page.wait_for("Network.loadingFailed")
    blocked = page.told("Network.loadingFailed")
    assert [one["blockedReason"] for one in blocked] == ["csp"]


@pytest.mark.parametrize(("scheme", "width"), [("light", 1000), ("dark", 1000), ("light", 360)])
def test_everybody_can_read_it(report: Path, page: Page, scheme: str, width: int) -> None:
    page.emulate(scheme=scheme, width=width)
    page.open(report.as_uri())
    page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), "it is wider than the screen"
    ARTIFACTS.mkdir(exist_ok=True)
    page.screenshot(ARTIFACTS / f"report-{scheme}-{width}.png")
    page.evaluate(axe_core())
    found = page.evaluate(
        "axe.run().then(result => result.violations.map(one => [one.id, one.impact, one.nodes[0].html]))"
    )
    assert found == []
