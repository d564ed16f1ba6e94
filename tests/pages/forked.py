"""`korisk` for the shell of a page: forks of a process that has loaded the libraries once.

Most commands of a page take less time than the start of a process that loads PyTorch. The script
that stands for `korisk` hands its arguments, folder, environment and standard files to a server,
and leaves with the code of the fork that ran the command. tests/cli starts processes of its own.
"""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path

LOADED = (  # what commands load when they need it
    *("torch", "torch.func", "matplotlib.pyplot", "scipy.optimize", "scipy.sparse", "yaml"),
    *("korisk.cli", "korisk.cli.app", "korisk.planning", "korisk.prediction", "korisk.report"),
    *("korisk.operators", "korisk.networks", "korisk.problems", "korisk.studies", "korisk.theory"),
)
WATCH = 10.0  # seconds between two looks whether the tests still run
LONGEST = 1 << 20  # bytes of a request: arguments and environment
SCRIPT = """\
#!{python} -IS
import json, os, socket, sys

with socket.socket(socket.AF_UNIX) as server:
    server.connect({path!r})
    asked = [sys.argv[1:], os.getcwd(), dict(os.environ)]
    socket.send_fds(server, [json.dumps(asked).encode() + b"\\n"], [0, 1, 2])
    sys.exit(int(server.recv(16)))
"""


@contextmanager
def commands(folder: Path) -> Iterator[Path]:
    """A folder whose `korisk` runs in forks, for the PATH of a shell."""
    path, tools = folder / "socket", folder / "bin"
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen()
        command = [sys.executable, __file__, str(listening.fileno())]
        environment = {**os.environ, "MPLBACKEND": "Agg", "OMP_NUM_THREADS": "1"}
        server = subprocess.Popen(command, pass_fds=[listening.fileno()], env=environment)
    tools.mkdir()
    (tools / "korisk").write_text(SCRIPT.format(python=sys.executable, path=str(path)))
    (tools / "korisk").chmod(0o755)
    try:
        yield tools
    finally:
        server.terminate()
        server.wait()


def serve(listening: socket.socket) -> None:
    """Fork for every command; the fork of the fork returns from here, as its process."""
    for name in LOADED:
        import_module(name)
    parent = os.getppid()
    listening.settimeout(WATCH)
    while os.getppid() == parent:  # tests that are killed take it with them
        try:
            client, _ = listening.accept()
        except TimeoutError:
            continue
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:  # forks that have handed their code over
                pass
        if os.fork():
            client.close()
            continue
        request, files, _, _ = socket.recv_fds(client, LONGEST, 3)
        while not request.endswith(b"\n"):
            request += client.recv(LONGEST)
        if worker := os.fork():
            code = os.waitstatus_to_exitcode(os.waitpid(worker, 0)[1])
            client.sendall(str(code % 256).encode())
            os._exit(0)
        arguments, folder, environment = json.loads(request)
        for number, file in enumerate(files):
            os.dup2(file, number)
            os.close(file)
        client.close()
        listening.close()
        sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115 (until the exit)
        sys.stderr = open(2, "w", buffering=1, closefd=False)  # noqa: SIM115
        os.environ.clear()
        os.environ.update(environment)
        os.chdir(folder)
        sys.argv = ["korisk", *arguments]
        import_module("korisk.cli").main()


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
