#!/usr/bin/env bash
# Shows that lhotse's samplers still give the batches that test/golden/sampling/lhotse.json has, which the tests hold serac's lhotse mode to.
# Needs PyPI (lhotse brings torch); installs nothing into the project. usage: bash scripts/interop/sampling.sh [--record]
# SERAC_INTEROP_VENV: the virtual environment to use, kept between runs. --record writes the golden file anew.
set -euo pipefail
cd "$(dirname "$0")/../.."
venv=${SERAC_INTEROP_VENV:-build/interop-venv}
golden=test/golden/sampling/lhotse.json
[ -x "$venv/bin/python" ] || python3 -m venv "$venv"
"$venv/bin/python" -c "from lhotse.dataset import DynamicBucketingSampler" 2>/dev/null || "$venv/bin/pip" install --quiet numpy lhotse==1.33.0 urllib3
if [ "${1:-}" = --record ]; then
  "$venv/bin/python" scripts/interop/sampling.py > "$golden.new"
  mv "$golden.new" "$golden"
  echo "wrote $golden"
else
  "$venv/bin/python" scripts/interop/sampling.py | diff "$golden" -
  echo "lhotse gives the batches of $golden"
fi
npx vitest run test/data/sampling/lhotse.test.ts
