#!/usr/bin/env bash
# Shows that tars made here are read by WebDataset, lhotse and Python, and theirs here. Needs PyPI; installs nothing into the project.
# usage: bash scripts/interop/tarred-read.sh        (SERAC_INTEROP_VENV: the virtual environment to use, kept between runs)
set -euo pipefail
cd "$(dirname "$0")/../.."
venv=${SERAC_INTEROP_VENV:-build/interop-venv}
if [ ! -x "$venv/bin/python" ]; then
  python3 -m venv "$venv"
  "$venv/bin/pip" install --quiet webdataset braceexpand soundfile numpy lhotse urllib3
fi
npm run --silent build:js
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$venv/bin/python" scripts/interop/tarred-read.py "$work"
