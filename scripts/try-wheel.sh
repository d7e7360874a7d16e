#!/bin/sh
# Builds the wheel and tries it in an empty environment of each Python given: scripts/try-wheel.sh python3.11 python3.12
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
here=$(cd "$(dirname "$0")/.." && pwd)
for python in "$@"; do
    "$python" -m venv "$folder/$(basename "$python")"
    own="$folder/$(basename "$python")/bin/python"
    [ -f "$folder"/dynhlo-*.whl ] || "$own" -m pip wheel -q --no-deps -w "$folder" "$here"
    "$own" -m pip install -q "$folder"/dynhlo-*.whl
    (cd "$folder" && unset PYTHONPATH && DYN_CACHE_DIR="$folder/cache" "$own" -c "
import sys, numpy as np, dyn, dyn.numpy as dnp
f = dyn.jit(lambda x: dnp.exp(x).sum(axis=-1))
assert f(np.zeros((2, 3), 'f4')).tolist() == [3, 3] and f(np.zeros((0, 5), 'f4')).shape == (0,)
print('Python', sys.version.split()[0], 'runs', dyn.__file__.rpartition('/site-packages/')[2])
")
done
ls -l "$folder"/dynhlo-*.whl | awk '{print $5, "bytes"}'
