"""An OpenSSH server on loopback that lets one key in, and an ``ssh`` that knows server and key."""

from __future__ import annotations

import contextlib
import getpass
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from command_line import kill_and_wait, wait_for
from docker_engine import give_up

_SSHD = """
ListenAddress 127.0.0.1
Port {port}
HostKey {folder}/host
AuthorizedKeysFile {folder}/user.pub
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
UsePAM no
StrictModes no
PidFile none
LogLevel ERROR
"""
_CLIENT = """
Host *
    IdentityFile {folder}/user
    IdentitiesOnly yes
    UserKnownHostsFile {folder}/known_hosts
    StrictHostKeyChecking yes
"""


@dataclass(frozen=True)
class SshServer:
    """A running server."""

    port: int
    programs: Path
    """A folder for ``PATH``: its ``ssh`` has the configuration that users have below their home."""

    @property
    def address(self) -> str:
        """``ssh://user@host:port``"""
        return f"ssh://{getpass.getuser()}@127.0.0.1:{self.port}"


@contextlib.contextmanager
def ssh_server(folder: Path, port: int) -> Iterator[SshServer]:
    """Run one while entered; where there is none, a test is skipped, and fails in CI."""
    sshd, ssh = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin"), shutil.which("ssh")
    if sshd is None or ssh is None:
        give_up("ssh:// needs sshd and ssh (Debian: openssh-server)")
        raise AssertionError
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    for name in ("host", "user"):
        command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)]
        subprocess.run(command, check=True, capture_output=True)
    (folder / "sshd_config").write_text(_SSHD.format(port=port, folder=folder))
    (folder / "ssh_config").write_text(_CLIENT.format(folder=folder))
    (folder / "known_hosts").write_text(f"[127.0.0.1]:{port} {(folder / 'host.pub').read_text()}")
    programs = folder / "bin"
    programs.mkdir()
    noting = f"echo $$ >>{folder}/clients"  # nobody here ends those of this process but ourselves
    (programs / "ssh").write_text(f'#!/bin/sh\n{noting}\nexec {ssh} -F {folder}/ssh_config "$@"\n')
    (programs / "ssh").chmod(0o755)
    with (folder / "sshd.log").open("wb") as log:
        server = subprocess.Popen([sshd, "-D", "-e", "-f", str(folder / "sshd_config")], stderr=log)
        try:
            wait_for("the ssh server", lambda: _listens(server, port, folder / "sshd.log"))
            yield SshServer(port, programs)
        finally:
            server.terminate()
            server.wait()
            end_clients(folder / "clients", str(folder))


def end_clients(record: Path, mark: str) -> None:
    """End the connections whose process ids are on record, so that no later test takes them for left behind."""
    for pid in record.read_text().split() if record.exists() else ():
        with contextlib.suppress(OSError):
            if mark in Path(f"/proc/{pid}/cmdline").read_text():
                kill_and_wait(int(pid))


def _listens(server: subprocess.Popen[bytes], port: int, log: Path) -> bool:
    if server.poll() is not None:
        raise AssertionError(log.read_text(errors="replace"))
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False
