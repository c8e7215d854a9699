"""A process that finds this folder in PYTHONPATH believes to run on the machine that TEST_HOST_NAME names."""

import os
import socket

if "TEST_HOST_NAME" in os.environ:
    socket.gethostname = lambda: os.environ["TEST_HOST_NAME"]
