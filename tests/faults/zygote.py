"""Forks processes that have everything loaded already: a fault point costs what the program does, not its start.

Reads one JSON object a line (``argv`` or ``code``, ``cwd``, ``env``, ``out``, ``err``, ``seconds``), answers each with
the exit status as ``subprocess`` gives it, or null when it took longer.  Preloaded with the shim, if faults are wanted.
``ZYGOTE_LOADS`` names further packages to load ahead.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import os
import signal
import struct
import sys
import time
import traceback
from typing import Any

import psutil  # noqa: F401 - loaded ahead
import pygit2  # noqa: F401 - the same
import watchfiles  # noqa: F401 - the same

import gitsession.cli.render.recovery
import gitsession.cli.session.recover
import gitsession.cli.wrapper
import gitsession.model
import gitsession.verbs.recover  # noqa: F401 - loaded ahead
from gitsession.cli import boundary
from gitsession.errors import GitSessionError

PROGRAMS = {"codeagent-wrapper": boundary.codeagent_wrapper, "pinable-agents": boundary.pinable_agents}
LEADER = 5 * 8  # where struct shared has the leader


def child(request: dict[str, Any]) -> int:
    os.setsid()
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    for number, name in ((0, os.devnull), (1, request["out"]), (2, request["err"])):
        os.dup2(os.open(name, os.O_RDONLY if number == 0 else os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), number)
    if fault_file := os.environ.get("FAULT_FILE"):
        with open(fault_file, "r+b") as file:
            file.seek(LEADER)
            file.write(struct.pack("l", os.getpid()))
        ctypes.CDLL(None).fault_arm()
    if "code" in request:
        exec(request["code"], {})
        return 0
    sys.argv = request["argv"]
    return PROGRAMS[sys.argv[0]]()


def wait(pid: int, seconds: float) -> int | None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.002)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return None


def main() -> None:
    for name in os.environ.get("ZYGOTE_LOADS", "").split():
        importlib.import_module(name)
    for line in sys.stdin:
        request = json.loads(line)
        pid = os.fork()
        if pid == 0:
            status = 99
            try:
                status = child(request)
            except SystemExit as end:
                status = int(end.code or 0)
            except GitSessionError as error:
                status = error.exit_status
                print(error, file=sys.stderr)
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(status)
        os.write(1, json.dumps(wait(pid, request["seconds"])).encode() + b"\n")


if __name__ == "__main__":
    main()
