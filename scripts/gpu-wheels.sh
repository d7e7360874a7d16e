#!/bin/sh
# Fills .whl/ with what scripts/gpu-check.sh needs on a machine with a GPU and without a network, for its Python (the first
# argument, 3.12 unless given): dyn's own dependencies that PyTorch and JAX do not bring. Tells what the checkout and the
# wheels weigh together, and fails where that is more than 60 MiB.

version=${1:-3.12}
root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd) && cd "$root" || exit 1
python=$(sh scripts/find-python.sh) || exit 1
most=$((60 * 1024 * 1024))

rm -rf .whl
"$python" -m pip download --quiet --disable-pip-version-check --no-deps --only-binary=:all: --implementation cp \
    --python-version "$version" --platform manylinux_2_28_x86_64 --platform manylinux_2_27_x86_64 \
    --platform manylinux_2_17_x86_64 --platform manylinux2014_x86_64 --platform manylinux1_x86_64 \
    --dest .whl 'optree>=0.14' 'typing-extensions>=4.12' 'platformdirs>=4' 'filelock>=3.12' 'ml_dtypes>=0.5,!=0.7.0' || exit 1

tree=$(git ls-files --cached --others --exclude-standard -z | xargs -0 du --bytes --total | tail -n 1 | cut -f 1)
wheels=$(du --bytes --total .whl/*.whl | tail -n 1 | cut -f 1)
echo "the checkout: $((tree / 1024)) KiB; .whl, for Python $version: $((wheels / 1024)) KiB in $(ls .whl | wc -l) wheels"
if [ $((tree + wheels)) -gt $most ]; then
    echo "error: together more than $((most / 1024)) KiB" >&2
    exit 1
fi
