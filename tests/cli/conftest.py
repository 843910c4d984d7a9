"""Sessions for the command line to show, made as session files say them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gitsession import SessionStore

MakeSession = Callable[..., dict[str, Any]]
ID = "sess_1740480000_a3f7b2c1"


def document(session_id: str = ID, **fields: Any) -> dict[str, Any]:
    """The session of the published worked example, at its first pause; ``fields`` replace what it says."""
    doc: dict[str, Any] = {
        "schema_version": 1,
        "id": session_id,
        "status": "paused",
        "backend": "claude",
        "model": "claude-opus-4-6",
        "task": "将用户、订单、支付三个模块的数据库访问从直接 SQL 重构为 Repository 模式",
        "task_hash": "sha256:e3b0c44298fc1c149afbf4c8996fb924",
        "files": ["src/user/db.go", "src/order/db.go", "src/payment/db.go"],
        "created_at": "2026-02-25T10:00:00Z",
        "updated_at": "2026-02-25T10:05:32Z",
        "workflow": "do",
        "current_phase": "implementation",
        "phases_completed": ["analysis"],
        "checkpoints": [
            {
                "index": 0,
                "timestamp": "2026-02-25T10:01:15Z",
                "phase": "analysis",
                "description": "完成代码分析，识别出 15 个函数",
                "files_changed": [],
                "tokens_used": {"input": 12500, "output": 3200},
            },
            {
                "index": 1,
                "timestamp": "2026-02-25T10:03:45Z",
                "phase": "implementation",
                "description": "完成 user 模块重构",
                "files_changed": ["src/user/db.go", "src/user/repository.go"],
                "tokens_used": {"input": 18300, "output": 5100},
                "commit": "0123456789abcdef0123456789abcdef01234567",
                "skipped": [{"path": "huge\x1b.bin", "reason": "too large (61 MB)"}],
            },
        ],
        "context": {
            "conversation_history": [],
            "accumulated_changes": [
                {"path": "src/user/db.go", "status": "modified"},
                {"path": "src/user/repository.go", "status": "added"},
            ],
            "working_branch": "refactor/user-microservice",
        },
        "cost": {"total_tokens": 39100, "estimated_cost_usd": 0.58},
        "metadata": {
            "git_branch": "main",
            "git_commit": "a7e37ab",
            "working_dir": "/home/dev/my-project",
            "os": "linux",
            "wrapper_version": "1.3.0",
        },
    }
    return doc | fields


@pytest.fixture
def make_session() -> MakeSession:
    """Adds a session to the sealed store: ``make_session("id", status="running", …)``."""

    def make(session_id: str = ID, **fields: Any) -> dict[str, Any]:
        doc = document(session_id, **fields)
        SessionStore().create(doc)
        return doc

    return make


@pytest.fixture
def sessions_dir(pinable_home: Path) -> Path:
    """Where the sealed store keeps its sessions."""
    return pinable_home / "sessions"
