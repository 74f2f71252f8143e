#!/usr/bin/env bash
# Shows that NeMo's own readers and serac's read the same out of the same datasets, those of serac and those of NeMo's converter. Needs PyPI (6 GB: NeMo brings
# torch); installs nothing into the project.
# usage: [SERAC_NEMO_SCRIPT=/path/to/convert_to_tarred_audio_dataset.py] bash scripts/interop/nemo-read.sh
# SERAC_INTEROP_VENV: the virtual environment to use, kept between runs. The converter is not a part of NeMo's package: see tarred-convert.sh.
set -euo pipefail
cd "$(dirname "$0")/../.."
venv=${SERAC_INTEROP_VENV:-build/interop-venv}
[ -x "$venv/bin/python" ] || python3 -m venv "$venv"
"$venv/bin/python" -c "import importlib.util as u; assert u.find_spec('nemo') and u.find_spec('lhotse')" 2>/dev/null || "$venv/bin/pip" install --quiet "nemo-toolkit[asr]==3.0.0"
npm run --silent build:js
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$venv/bin/python" scripts/interop/nemo-read.py "$work"
