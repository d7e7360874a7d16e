#!/bin/sh
# Prints the Python that dyn's virtual environment is made from: $PYTHON if it is set, otherwise the first of the
# candidates below that runs and is new enough. Says on stderr what it found when there is none.

check='import sys; sys.exit(sys.version_info < (3, 11))'
found=''

for candidate in ${PYTHON:-python3.11 python3.12 python3.13 python3.14 python3}; do
    if "$candidate" -c "$check" 2>/dev/null; then
        command -v "$candidate"
        exit 0
    fi
    if version=$("$candidate" --version 2>&1); then
        found="$found    $candidate is $version
"
    fi
done

{
    echo 'error: dyn needs Python 3.11 or later.'
    if [ -n "${PYTHON:-}" ] && [ -z "$found" ]; then
        echo "  found: PYTHON=$PYTHON does not run"
    elif [ -n "$found" ]; then
        echo '  found:'
        printf '%s' "$found"
    fi
    echo '  help: on Debian 12 and Ubuntu 24.04, "apt-get install python3 python3-venv" gives one; for a Python that is'
    echo '        not on the PATH, say "make PYTHON=/path/to/python3.11 ..."'
} >&2
exit 1
