"""What looks like a key is masked, what does not is left, and no text takes long."""

from __future__ import annotations

import time

import pytest

from gitsession.verbs.redact import MASK, Redactor, count

# Put together here, so that nobody takes this file for one that leaks.
AWS = "AKIA" + "IOSFODNN7EXAMPLE"
KEYS = [
    "sk-ant-" + "api03-abcDEF_123",
    "sk-" + "proj-abcdefghij0123456789",
    "sk-" + "proj-" + "Abcdefghij" * 4,
    "ghp_" + "a1" * 18,
    "github_pat_" + "11ABC_" * 5,
    "glpat-" + "x1" * 10,
    AWS,
    "AIza" + "Sy0" * 11 + "ab",
    "xoxb-" + "123456789012-abc",
    "eyJ" + "hbGciOiJIUzI1NiJ9" + ".eyJ" + "zdWIiOiIxMjM0" + ".SflKxwRJSMeKKF2QT4",
    "sk_live_" + "abcdefghij12",
    "hf_" + "Ab1" * 11,
]


def masked(text: str) -> tuple[str, int]:
    redactor = Redactor()
    return redactor.text(text), redactor.found


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("around", ["{}", "x {} y", '"{}"', "+{}\n", "key={};", "({})", "/{}/"])
def test_known_kinds_of_keys(key: str, around: str) -> None:
    assert masked(around.format(key)) == (around.format(MASK), 1)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('password = "correcthorse"', "correcthorse"),
        ("DB_PASSWORD='correct;horse'", "correct;horse"),
        ("AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG/bPxRfiCY", "wJalrXUtnFEMI/K7MDENG/bPxRfiCY"),
        ("token: abc123def456\n", "abc123def456"),
        ('{"api_key": "hunter2hunter2"}', "hunter2hunter2"),
        ("STRIPE_KEY=abcdefghij1234567890", "abcdefghij1234567890"),
        ("Authorization: Bearer abcd.efgh", "abcd.efgh"),
        ("https://me:pa55@example.com/x", "pa55"),
        ("client_secret => 'a b' 'longenough'", None),
    ],
)
def test_words_with_a_name_that_says_it(text: str, value: str | None) -> None:
    assert masked(text) == ((text, 0) if value is None else (text.replace(value, MASK), 1))


@pytest.mark.parametrize(
    "text",
    [
        "token = parser.next_token()", "secret: str", 'password = os.environ["X1234567"]', "tokens_used = 12345678",
        "task-management-of-some-very-long-name-2", "token = self.config2.token", 'key = "username_field_name"',
        "https://example.com:8080/a@b", "risk-based-approach-to-something-4", "password: ********",
        "token = tokens[12345678]", "sha256:e3b0c44298fc1c149afbf4c8",
        f'password = "{MASK}"', "if x.startswith('-----BEGIN PRIVATE KEY-----'): pass",
    ],
)  # fmt: skip
def test_what_is_no_secret_stays(text: str) -> None:
    assert masked(text) == (text, 0)


def test_a_private_key_goes_whole_and_lines_stay_lines() -> None:
    block = "-----BEGIN RSA PRIVATE" + " KEY-----\n+MIIEpAIBAAKCAQEA\n+7bq==\n+-----END RSA PRIVATE" + " KEY-----"
    assert masked(f"+{block}\n after") == (f"+{MASK}\n{MASK}\n{MASK}\n{MASK}\n after", 1)
    in_json = block.replace("\n", "\\n").replace("+", "")
    assert masked(f'"{in_json}"') == (f'"{MASK}"', 1)
    assert masked("-----BEGIN PRIVATE" + " KEY-----\n" + "QUJD" * 16 + "\n[cut]")[0] == f"{MASK}\n{MASK}\n[cut]"


def test_json_keeps_its_shape() -> None:
    redactor = Redactor()
    value = {
        "a": [AWS, 1, None, True],
        "password": "x",
        "db_password": "",
        "tokens_used": {"input": 1},
        "n": {"token": 3},
    }
    assert redactor.value(value) == {**value, "a": [MASK, 1, None, True], "password": MASK}
    assert redactor.found == 2


@pytest.mark.parametrize(
    "text",
    ["a" * 300_000, "token" * 50_000, "key=" * 50_000, "x://:" * 50_000, "sk-" * 50_000, "eyJaaaaa-" * 20_000,
     "-----BEGIN PRIVATE" + " KEY-----\n" * 20_000, "password" + " " * 200_000, "a:" * 100_000, 'token="' * 30_000],
)  # fmt: skip
def test_no_text_takes_long(text: str) -> None:
    began = time.process_time()
    count(text)
    assert time.process_time() - began < 20
