"""Runs our clients against SkyRL's Tinker server (skyrl_server.py): run.py PROGRAM [ARGUMENT...]

PROGRAM gets the server's address by TINKER_BASE_URL.
"""

import os
import subprocess
import sys

from skyrl_server import skyrl_server

with skyrl_server() as url:
    address = {"TINKER_BASE_URL": url, "TINKER_API_KEY": "tml-any"}
    status = subprocess.run(sys.argv[1:], env={**os.environ, **address}).returncode
sys.exit(status)
