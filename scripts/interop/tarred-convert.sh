#!/usr/bin/env bash
# Runs NeMo's convert_to_tarred_audio_dataset.py and serac tar on the same corpus and compares all their files byte for byte.
# usage: SERAC_NEMO_SCRIPT=/path/to/convert_to_tarred_audio_dataset.py bash scripts/interop/tarred-convert.sh [--record]
# The script is NeMo's own file, which is not a part of this repository: take it from github.com/NVIDIA-NeMo/Speech,
# scripts/speech_recognition (any commit of 2025 or 2026). It needs no NeMo: what it imports from there is stood in for.
# SERAC_INTEROP_VENV: the virtual environment to use, kept between runs. --record writes test/golden/tarred-convert.json.
set -euo pipefail
cd "$(dirname "$0")/../.."
: "${SERAC_NEMO_SCRIPT:?give the path of convert_to_tarred_audio_dataset.py}"
venv=$(realpath -m "${SERAC_INTEROP_VENV:-build/interop-venv}")
"$venv/bin/python" -c 'import joblib, omegaconf, soundfile, tqdm, numpy, scipy, tabulate, importlib.util as u; assert u.find_spec("lhotse")' 2>/dev/null || {
  python3 -m venv "$venv"
  "$venv/bin/pip" install --quiet joblib omegaconf soundfile tqdm numpy scipy tabulate
  "$venv/bin/pip" install --quiet --no-deps lhotse # one function of its is taken, without what it needs
}
npm run --silent build:js
node scripts/interop/tarred-convert.mjs "$venv/bin/python" "$SERAC_NEMO_SCRIPT" "$@"
