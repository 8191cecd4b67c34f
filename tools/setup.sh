#!/usr/bin/env bash
# What `make` runs once: .venv with the versions of requirements.lock.
#
#     tools/setup.sh VENV PYTHON [cpu]
#
# With `cpu` PyTorch comes from PyTorch's own index, as the build without CUDA libraries. What pip prints goes to
# VENV/setup.log, and to the terminal only if it fails.
set -euo pipefail
cd "$(dirname "$0")/.."
venv=$1 python=$2 build=${3:-}

if [ -z "$python" ]; then
    echo "No Python 3.11, 3.12 or 3.13 with venv found. Install one (Debian, Ubuntu: apt install python3-venv)"
    echo "or name one: make PYTHON=/path/to/python"
    exit 1
fi
# WSL has the driver's library here and no device file.
has_driver() { [ -e /dev/nvidiactl ] || [ -e /proc/driver/nvidia/version ] || [ -e /usr/lib/wsl/lib/libcuda.so.1 ]; }

case $build in
cpu) size="0.5 GB to download, 2.5 GB on disk" ;;
"") size="2.9 GB to download, 5.3 GB on disk" ;;
*) echo "TORCH=$build: 'cpu' is the only choice, or leave it out for the CUDA build."; exit 1 ;;
esac
echo "Setting up $venv with $("$python" --version): $size; some minutes."
if [ -z "$build" ] && ! has_driver; then
    echo "No NVIDIA driver found: PyTorch's CPU build (192 MB) is enough here. For it, stop this and add TORCH=cpu."
fi

began=$SECONDS
[ -x "$venv/bin/python" ] || "$python" -m venv "$venv"
log=$venv/setup.log
install() { "$venv/bin/python" -m pip install --disable-pip-version-check --progress-bar off "$@" >>"$log" 2>&1; }
: >"$log"
if [ "$build" = cpu ]; then
    install --index-url https://download.pytorch.org/whl/cpu --no-deps "$(grep '^torch==' requirements.lock)" || status=$?
fi
if [ "${status:-0}" = 0 ]; then
    install -r requirements.lock || status=$?
fi
if [ "${status:-0}" != 0 ]; then
    cat "$log"
    echo "pip could not install requirements.lock; what it printed is above and in $log."
    exit 1
fi
echo "Set up in $((SECONDS - began)) s."
