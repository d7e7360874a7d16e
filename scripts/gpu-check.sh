#!/bin/sh
# Finds out in minutes what dyn does on a GPU of this machine, from a bare checkout: nothing is installed, and no network
# is needed. Arguments are those of `python -m benchmarks.gpu_check` (--help lists them); results go to --out, to $OUT, or
# to out/gpu-check. Wheels that this Python lacks are taken from .whl/ (`make gpu-wheels` fills it), or from $WHEELS.

root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd) || exit 2
# The machine's plain Python comes first: the one that holds its PyTorch and its JAX.
python=$(PYTHON="${PYTHON:-python3 python3.12 python3.13 python3.11 python3.14}" sh "$root/scripts/find-python.sh") || exit 2
wheels=${WHEELS:-$root/.whl}
site=$(mktemp -d) || exit 2
trap 'rm -rf "$site"' EXIT

echo "$python"
command -v nvidia-smi >/dev/null 2>&1 && nvidia-smi --query-gpu=name,memory.total,driver_version --format=csv,noheader
if [ -d "$wheels" ]; then
    unpacked=$("$python" "$root/benchmarks/gpu_check/wheels.py" "$wheels" "$site") || exit 2
    echo "from $wheels: ${unpacked:-nothing is missing}"
fi
cd "$root" || exit 2
PYTHONPATH="$root:$site${PYTHONPATH:+:$PYTHONPATH}" PYTHONUNBUFFERED=1 "$python" -m benchmarks.gpu_check "$@"
