"""A task's fingerprint."""

from __future__ import annotations

from gitsession.tasks import same_task, task_hash


def test_a_task_hash_is_sha256_of_utf8() -> None:
    assert task_hash("") == "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


def test_task_hashes_are_compared_by_the_shorter() -> None:
    assert same_task("sha256:e3b0c44298fc1c149afbf4c8996fb924", task_hash(""))
    assert not same_task("sha256:e3b0c44298fc1c149afbf4c8996fb924", task_hash("another"))
    assert not same_task("sha256:", task_hash("another"))
