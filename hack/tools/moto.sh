#!/usr/bin/env bash
# Installs moto's server, a stand-in for AWS made in Python, into bin/moto: a virtual environment whose packages hack/tools/moto/requirements.txt pins by their hashes. What is
# there already from the same file is kept, so that later runs need no network. Exits with 3 if the machine has no Python that can do it: the tests that need moto are then
# left out. Usage: hack/tools/moto.sh; then bin/moto/bin/python -m moto.server -H 127.0.0.1 -p 0
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
pins=$root/hack/tools/moto/requirements.txt
out=$root/bin/moto
least=3.10

# The copy of the file is put there last. The Python behind the environment may have been replaced since.
if cmp -s "$pins" "$out/requirements.txt" && "$out/bin/python" -c 'import moto.server' 2>/dev/null; then
  exit 0
fi

command -v python3 >/dev/null || { echo "no python3: install Python $least or newer, with its venv module" >&2; exit 3; }
python3 -c "import sys; sys.exit(sys.version_info < tuple(map(int, '$least'.split('.'))))" ||
  { echo "python3 is $(python3 -c 'import platform; print(platform.python_version())'): Python $least or newer is needed" >&2; exit 3; }
python3 -c 'import venv, ensurepip' 2>/dev/null || { echo "python3 has no venv: install its package (python3-venv on Debian)" >&2; exit 3; }

start=$SECONDS
echo "installing moto's server from Python packages; about 130 MB on disk, once" >&2
rm -rf "$out"
mkdir -p "$(dirname "$out")"
python3 -m venv "$out"
# Wheels only: nothing of a package runs while it is installed.
"$out/bin/python" -m pip install --quiet --disable-pip-version-check --no-input --require-hashes --no-deps --only-binary :all: -r "$pins" >&2
"$out/bin/python" -m pip check --disable-pip-version-check >&2
cp "$pins" "$out/requirements.txt"
echo "installed moto in $((SECONDS - start)) s" >&2
