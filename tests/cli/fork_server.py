"""Runs commands in forks of a process that has torch and fairseq loaded, but not pet_fairseq.

Importing them takes 5 to 8 seconds, which a fork does not pay. In all else it is the command: it
executes the console script with its own arguments, environment, folder and streams, loads
pet_fairseq as the command does, and ends with the status, the output and the exit handlers with
which Python would end. `fork_client.py` asks for it.

A command that starts others finds them beside its Python, so sys.executable lies in a folder of
scripts that ask for a fork as well: `pet-fairseq compress` starts a dozen.

Usage: fork_server.py SOCKET; it prints a line when it listens and ends when its input does.
"""

import atexit
import contextlib
import gc
import importlib
import json
import logging
import os
import runpy
import select
import signal
import socket
import sys
import threading
import warnings
from importlib.util import spec_from_loader
from pathlib import Path

BIN = Path(sys.executable).parent
CLIENT = Path(__file__).resolve().parent / "fork_client.py"

# what fairseq's commands load, also later than at their start
LOADED = (
    *("fairseq.models", "fairseq.tasks", "fairseq.criterions", "fairseq_cli.train"),
    *("fairseq_cli.generate", "fairseq_cli.interactive", "fairseq_cli.validate"),
    *("fairseq_cli.preprocess", "torch._dynamo", "sacrebleu", "tensorboardX"),
    *("numpy", "matplotlib.figure", "matplotlib.backends.backend_agg"),
)


class FairseqLoader:
    """Gives a command the fairseq that is loaded, and does to its log what loading it does.

    Whoever calls logging.basicConfig first sets up the log: for some commands that is fairseq.
    """

    def __init__(self):
        self.loaded = sys.modules.pop("fairseq")
        self.spec = self.loaded.__spec__

    def find_spec(self, name, path=None, target=None):
        return spec_from_loader(name, self) if name == "fairseq" else None

    def create_module(self, spec):
        return self.loaded

    def exec_module(self, module):
        module.__spec__ = self.spec
        sys.meta_path.remove(self)
        logging.basicConfig(level=logging.DEBUG)  # as fairseq.tasks.text_to_speech


def preload() -> None:
    """Load what commands load, and undo what the modules of commands do while being loaded."""
    logging.root.addHandler(logging.NullHandler())  # so that nobody sets up the log here
    for name in LOADED:
        importlib.import_module(name)
    for name in [name for name in sys.modules if name.startswith("fairseq_cli")]:
        del sys.modules[name]  # the command's own module is loaded by the command
    sys.meta_path.insert(0, FairseqLoader())
    logging.root.handlers.clear()
    assert "pet_fairseq" not in sys.modules
    assert threading.active_count() == 1  # a fork has only the thread that forks
    gc.freeze()  # forks share these objects as long as nobody touches them


def write_scripts(address: str) -> Path:
    """Write one for each command that a fork can be; returns Python's among them.

    Where what was read while torch was loaded is not as here, the command itself is started.
    """
    folder = Path(address).parent / "bin"
    folder.mkdir()
    as_here = '[ "$OMP_NUM_THREADS" = 1 ] && [ -z "$CUDA_VISIBLE_DEVICES" ]'
    for command in (*BIN.glob("fairseq-*"), BIN / "pet-fairseq"):
        fork = f'exec {sys.executable} -IS {CLIENT} {address} {command} "$@"'
        script = f'#!/bin/sh\nif {as_here}; then {fork}; fi\nexec {command} "$@"\n'
        (folder / command.name).write_text(script)
    python = folder / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    for path in folder.iterdir():
        path.chmod(0o755)
    return python


def accept(address: str) -> socket.socket:
    """Wait for clients for ever; return each one's connection in a process of its own."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen()
        print("listening", flush=True)
        while True:
            ready, _, _ = select.select([listener, sys.stdin], [], [])
            if sys.stdin in ready:
                reap()
                sys.exit()
            connection, _ = listener.accept()
            if os.fork() == 0:
                return connection
            connection.close()
            reap()


def reap() -> None:
    """Take note of the processes that have ended; their times count as the server's then."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG) != (0, 0):
            pass


def attend(connection: socket.socket) -> dict:
    """Fork the process of a command, and tell the client how it ends; only that one returns."""
    _, streams, _, _ = socket.recv_fds(connection, 1, 3)
    request = json.loads(connection.makefile().readline())
    pid = os.fork()
    if pid == 0:
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
            os.close(stream)
        connection.close()
        return request
    for stream in streams:
        os.close(stream)
    connection.sendall(f"{pid}\n".encode())
    end = os.pidfd_open(pid)
    ready, _, _ = select.select([end, connection], [], [])
    if connection in ready:  # the client was killed
        os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    connection.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())
    os._exit(0)


def become(python: Path, argv: list[str], env: dict[str, str], cwd: str) -> None:
    """Take over what a new process would find, with `python` as its Python."""
    sys.executable = str(python)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    sys.argv[:] = argv
    sys.path[0] = str(Path(argv[0]).parent)
    if "PYTHONWARNINGS" in env:
        warnings._processoptions(env["PYTHONWARNINGS"].split(","))  # as Python does when it starts
    sys.modules["numpy"].random.seed()  # anew, as Python's own generator is after a fork


def run_script(path: str) -> int:
    """Run a script as Python does; returns its exit status."""
    try:
        runpy.run_path(path, run_name="__main__")
    except SystemExit as end:
        if not isinstance(end.code, (int, type(None))):
            print(end.code, file=sys.stderr)
            return 1
        return end.code or 0
    except Exception:  # KeyboardInterrupt ends Python by its signal
        sys.excepthook(*sys.exc_info())
        return 1
    return 0


def end(status: int) -> None:
    """End as Python ends, but leave the memory to the system.

    Python takes every module apart first, which copies all memory that a fork shares: 0.4 seconds.
    """
    threading._shutdown()
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError):  # nobody reads it, or it is closed: Python says what it says
        sys.exit(status)
    os._exit(status & 0xFF)


def main() -> None:
    address = sys.argv[1]
    preload()
    python = write_scripts(address)
    become(python, **attend(accept(address)))
    end(run_script(sys.argv[0]))


if __name__ == "__main__":
    main()
