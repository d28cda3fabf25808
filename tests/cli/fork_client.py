"""Lets fork_server.py run a command, and stands for it: passes signals on, ends as it ends.

Usage: fork_client.py SOCKET SCRIPT ARGUMENTS...
"""

import json
import os
import signal
import socket
import sys

PASSED_ON = (signal.SIGINT, signal.SIGTERM)

signal.pthread_sigmask(signal.SIG_BLOCK, PASSED_ON)  # until it is known to whom
connection = socket.socket(socket.AF_UNIX)
connection.connect(sys.argv[1])
socket.send_fds(connection, [b"."], [0, 1, 2])
request = {"argv": sys.argv[2:], "env": dict(os.environ), "cwd": os.getcwd()}
connection.sendall(json.dumps(request).encode() + b"\n")
answers = connection.makefile()
pid = int(answers.readline())
for number in PASSED_ON:
    signal.signal(number, lambda number, _: os.kill(pid, number))
signal.pthread_sigmask(signal.SIG_UNBLOCK, PASSED_ON)
status = int(answers.readline())
if status < 0:
    if status != -signal.SIGKILL:
        signal.signal(-status, signal.SIG_DFL)
    os.kill(os.getpid(), -status)
sys.exit(status)
