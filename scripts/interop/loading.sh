#!/usr/bin/env bash
# Makes the golden numbers of loading (test/golden/loading.json) by lhotse and holds serac to them.
# Needs PyPI (lhotse brings torch); installs nothing into the project. usage: bash scripts/interop/loading.sh [--record]
# SERAC_INTEROP_VENV: the virtual environment to use, kept between runs. --record writes the golden file anew.
set -euo pipefail
cd "$(dirname "$0")/../.."
venv=${SERAC_INTEROP_VENV:-build/interop-venv}
golden=test/golden/loading.json
[ -x "$venv/bin/python" ] || python3 -m venv "$venv"
"$venv/bin/python" -c "from lhotse.dataset import SpecAugment" 2>/dev/null || "$venv/bin/pip" install --quiet numpy lhotse==1.33.0 urllib3 pyloudnorm
"$venv/bin/python" scripts/interop/loading.py > "$golden.new"
if [ "${1:-}" = --record ]; then
  mv "$golden.new" "$golden"
  echo "wrote $golden"
else
  mv "$golden.new" build/loading-golden.json
  cmp "$golden" build/loading-golden.json && echo "lhotse still gives the numbers of $golden" # other processors may differ in the last digit
fi
npx vitest run test/data/loading/lhotse.test.ts
