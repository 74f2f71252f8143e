#!/usr/bin/env bash
# Shows that what `serac prepare` and writeSharFolder write is read by lhotse from PyPI, equal to what lhotse makes itself, and that cuts, stored
# features and Shar folders of lhotse are read here; mixtures draw alike. Needs PyPI; installs nothing into the project.
# usage: bash scripts/interop/sources.sh        (SERAC_INTEROP_VENV: the virtual environment to use, kept between runs)
set -euo pipefail
cd "$(dirname "$0")/../.."
venv=${SERAC_INTEROP_VENV:-build/interop-venv}
[ -x "$venv/bin/python" ] || python3 -m venv "$venv"
"$venv/bin/python" -c "import lhotse, soundfile, lilcom" 2>/dev/null || "$venv/bin/pip" install --quiet soundfile numpy lhotse lilcom urllib3
npm run --silent build:js
"$venv/bin/python" scripts/interop/sources.py
