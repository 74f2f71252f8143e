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
  "$venv/bin/python" - "$golden" build/loading-golden.json <<'PYTHON'
import json, math, sys

golden, now = (json.load(open(path)) for path in sys.argv[1:])


def compare(a, b, place=""):
    """Other processors, and other versions of torch, differ in the last digits."""
    if isinstance(a, dict):
        assert a.keys() == b.keys(), place
        for key in a:
            compare(a[key], b[key], f"{place}/{key}")
    elif isinstance(a, list):
        assert len(a) == len(b), place
        for i, pair in enumerate(zip(a, b)):
            compare(*pair, f"{place}/{i}")
    else:
        assert a == b or (isinstance(a, float) and math.isclose(a, b, rel_tol=1e-4, abs_tol=1e-6)), (place, a, b)


compare(golden, now)
print(f"lhotse still gives the numbers of {sys.argv[1]}")
PYTHON
fi
npx vitest run test/data/loading/lhotse.test.ts
