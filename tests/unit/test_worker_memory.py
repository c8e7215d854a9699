"""What a worker does about memory that its threads have freed."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import ctypes, sys, threading
from agentcompass.worker import share_arenas

share_arenas()
both = threading.Barrier(12)

def allocate():
    both.wait()
    kept = [bytes(50_000) for _ in range(20)]
    both.wait()  # all threads are there at once: none inherits the arena of one that has ended

threads = [threading.Thread(target=allocate) for _ in range(12)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
libc = ctypes.CDLL(None)
libc.fopen.restype = ctypes.c_void_p
stream = ctypes.c_void_p(libc.fopen(sys.argv[1].encode(), b"w"))
libc.malloc_info(0, stream)
libc.fclose(stream)
"""

pytestmark = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another malloc")


def arenas(folder: Path, **variables: str) -> int:
    """Arenas of a process in which twelve threads have allocated."""
    info = folder / "malloc.xml"
    env = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}
    subprocess.run([sys.executable, "-c", PROGRAM, str(info)], env={**env, **variables}, check=True)
    return info.read_text().count("<heap nr=")


def test_threads_of_a_worker_share_two_arenas(tmp_path: Path) -> None:
    assert arenas(tmp_path) == 2


def test_an_operator_may_choose_another_number(tmp_path: Path) -> None:
    assert arenas(tmp_path, MALLOC_ARENA_MAX="5") == 5
