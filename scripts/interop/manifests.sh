#!/usr/bin/env bash
# Shows that what `serac manifest convert` writes is read by lhotse and Python, and theirs here. Needs PyPI; installs nothing into the project.
# usage: bash scripts/interop/manifests.sh AUDIO_FOLDER        (SERAC_INTEROP_VENV: the virtual environment to use, kept between runs)
set -euo pipefail
audio=$(realpath "${1:?usage: bash scripts/interop/manifests.sh AUDIO_FOLDER (with WAV or FLAC files of one sampling rate)}")
cd "$(dirname "$0")/../.."
venv=${SERAC_INTEROP_VENV:-build/interop-venv}
[ -x "$venv/bin/python" ] || python3 -m venv "$venv"
"$venv/bin/python" -c "import lhotse, soundfile" 2>/dev/null || "$venv/bin/pip" install --quiet soundfile numpy lhotse urllib3
npm run --silent build:js
"$venv/bin/python" scripts/interop/manifests.py "$audio"
