"""Lets fork_server.py run a command, and stands for it: passes signals on, ends as it ends.

Usage: fork_client.py SOCKET SCRIPT ARGUMENTS...
"""

import json
import os
import select
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
awoken, wake = os.pipe()
os.set_blocking(wake, False)
signal.set_wakeup_fd(wake)  # a handler in Python would not run while a read waits
for number in PASSED_ON:
    signal.signal(number, lambda *_: None)
signal.pthread_sigmask(signal.SIG_UNBLOCK, PASSED_ON)
while connection not in (ready := select.select([connection, awoken], [], [])[0]):
    for number in os.read(awoken, 16):
        os.kill(pid, number)
status = int(answers.readline())
if status < 0:
    if status != -signal.SIGKILL:
        signal.signal(-status, signal.SIG_DFL)
    os.kill(os.getpid(), -status)
sys.exit(status)
