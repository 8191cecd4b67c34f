#!/usr/bin/env bash
# Gradescope runs this once, as root, when it builds the image: Python and the pinned packages, without CUDA libraries.
set -euo pipefail
source=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
[ -d "$source/grader" ] || source=$source/source
venv=$(dirname "$source")/venv

export DEBIAN_FRONTEND=noninteractive
apt-get update
# bubblewrap isolates submissions, g++ runs CUDA C++ on the CPU.
apt-get install -y --no-install-recommends bubblewrap g++ python3-venv
if python3 -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))'; then
    python3 -m venv "$venv"
else # pip brings uv, and uv a Python that is new enough
    apt-get install -y --no-install-recommends python3-pip
    python3 -m pip install uv || python3 -m pip install --break-system-packages uv
    python3 -m uv venv --seed --python 3.12 "$venv"
fi
bash "$source/tools/setup.sh" "$venv" "$venv/bin/python" cpu
chmod go-rwx "$source/autograder.json" # the hidden cases' seed
