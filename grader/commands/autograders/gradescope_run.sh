#!/usr/bin/env bash
# Gradescope runs this for each submission; what it prints is hidden from students.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "$root/source"
exec "$root/venv/bin/python" -m grader.commands.one_submission "$root/submission" \
    --for gradescope --to "$root/results/results.json"
