"""Two hosts on one machine: namespaces of their own for network, processes and names, and a link between them that can
be cut. Their disks are the same, but for folders that are hidden. Assumes Linux and a user who may make namespaces;
`obstacle` says if that is not so.

Each host has an agent in it that starts what it is asked to, as a daemon for remote logins would: the launcher of MPICH
gets there with `python two_hosts.py login FOLDER HOST COMMAND...` in place of ssh.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import threading
from functools import cache
from pathlib import Path

ADDRESSES = {"10.99.7.1": "hosta", "10.99.7.2": "hostb"}
DEVICE = "dfc0"
"""The end of the link on each host."""
UNSHARE = ["unshare", "--net", "--uts", "--pid", "--ipc", "--mount", "--fork", "--kill-child", "--mount-proc"]


@cache
def obstacle() -> str:
    """Why there can be no two hosts here; empty if there can."""
    for tool in ("unshare", "ip", "nsenter"):
        if shutil.which(tool) is None:
            return f"{tool} is not installed"
    try:
        with Hosts(Path("/nonexistent"), agents=False):
            return ""
    except subprocess.CalledProcessError as problem:
        return f"no namespaces and links may be made here: {(problem.stderr or '').strip()[:100]}"


class Hosts:
    """Two hosts, as long as the block runs; `folder` is for their sockets."""

    def __init__(self, folder: Path, *, agents: bool = True) -> None:
        self._folder = folder
        self._agents = agents
        self._processes: list[subprocess.Popen[str]] = []
        self._first: dict[str, int] = {}

    def __enter__(self) -> Hosts:
        try:
            for name in ADDRESSES.values():
                self._start(name)
            first, second = (str(self._first[host]) for host in ADDRESSES.values())
            _run("ip", "link", "add", DEVICE, "netns", first, "type", "veth", "peer", DEVICE, "netns", second)
            for address, host in ADDRESSES.items():
                _run(*self._in(host), "ip", "addr", "add", f"{address}/24", "dev", DEVICE)
            self.link(up=True)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            process.kill()  # and with it all that runs on the host
            process.communicate()

    def _start(self, name: str) -> None:
        agent = f"exec {sys.executable} {__file__} agent {self._folder} {name}"
        stay = agent if self._agents else "echo ready && exec cat"
        text = f"hostname {name} && ip link set lo up && {stay}"
        process = subprocess.Popen(
            [*UNSHARE, "sh", "-c", text],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._processes.append(process)
        assert process.stdout is not None and process.stderr is not None
        if process.stdout.readline() != "ready\n":
            raise subprocess.CalledProcessError(1, UNSHARE, stderr=process.stderr.read())
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        self._first[name] = int(children[0])

    def _in(self, host: str) -> list[str]:
        return ["nsenter", "-t", str(self._first[host]), "--net", "--uts", "--pid", "--ipc", "--mount"]

    def link(self, *, up: bool) -> None:
        """Brings the link up, or cuts it."""
        for host in ADDRESSES.values():
            _run(*self._in(host), "ip", "link", "set", DEVICE, "up" if up else "down")

    def hide(self, host: str, folder: Path) -> None:
        """Puts an empty disk of its own over a folder of a host."""
        _run(*self._in(host), "mount", "-t", "tmpfs", "tmpfs", str(folder))

    def start(self, host: str, command: list[str], environment: dict[str, str], folder: Path) -> subprocess.Popen[str]:
        """Starts a command on a host."""
        return subprocess.Popen(
            [*self._in(host), f"--wd={folder}", *command],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def processes(self, host: str) -> list[str]:
        """The commands that run on a host, but for its agent."""
        names = os.readlink(f"/proc/{self._first[host]}/ns/pid")
        command_lines: list[str] = []
        for each in Path("/proc").iterdir():
            try:
                if each.name.isdigit() and os.readlink(each / "ns" / "pid") == names:
                    command_lines.append((each / "cmdline").read_bytes().replace(b"\0", b" ").decode())
            except OSError:
                continue  # it has just ended
        return [line for line in command_lines if line and "two_hosts.py agent" not in line]

    def environment(self) -> dict[str, str]:
        """What makes the launcher of MPICH start ranks on both hosts, over TCP."""
        hosts = self._folder / "hosts"
        hosts.write_text("".join(f"{address}:1\n" for address in ADDRESSES))
        login = self._folder / "login"
        login.write_text(f'#!/bin/sh\nexec {sys.executable} {__file__} login {self._folder} "$@"\n')
        login.chmod(0o755)
        return {
            "HYDRA_LAUNCHER": "ssh",
            "HYDRA_LAUNCHER_EXEC": str(login),
            "HYDRA_HOST_FILE": str(hosts),
            "HYDRA_IFACE": DEVICE,
            "MPIR_CVAR_CH4_NETMOD": "ofi",
            "FI_PROVIDER": "tcp",
            "FI_TCP_IFACE": DEVICE,  # else it may choose the loopback, which leads nowhere
        }


def _run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)


def agent(folder: Path, host: str) -> None:
    """Starts commands on this host, with the standard streams of whoever asks."""
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(folder / f"{host}.socket"))
    server.listen()
    print("ready", flush=True)
    while True:
        asked, _ = server.accept()
        data, streams, _, _ = socket.recv_fds(asked, 1 << 16, 3)
        process = subprocess.Popen(
            ["sh", "-c", " ".join(json.loads(data))], stdin=streams[0], stdout=streams[1], stderr=streams[2]
        )
        for stream in streams:
            os.close(stream)
        threading.Thread(target=_wait, args=(process, asked), daemon=True).start()


def _wait(process: subprocess.Popen[bytes], asked: socket.socket) -> None:
    code = process.wait()
    try:
        asked.sendall(bytes([code & 255]))
    except OSError:
        pass  # whoever asked is gone
    asked.close()


def login(folder: Path, words: list[str]) -> int:
    """Has an agent run a command; its exit code."""
    while words[0].startswith("-"):
        words = words[1:]
    end = socket.socket(socket.AF_UNIX)
    end.connect(str(folder / f"{ADDRESSES[words[0]]}.socket"))
    socket.send_fds(end, [json.dumps(words[1:]).encode()], [0, 1, 2])
    code = end.recv(1)
    return code[0] if code else 255


if __name__ == "__main__":
    if sys.argv[1] == "agent":
        agent(Path(sys.argv[2]), sys.argv[3])
    else:
        sys.exit(login(Path(sys.argv[2]), sys.argv[3:]))
