#!/usr/bin/env bash
# Builds the torch addon against PyPI's torch 2.x (its CPU part) in a throw-away virtual environment and runs the native tests with it.
# Downloads about 900 MB. usage: bash scripts/check-torch2.sh [FOLDER]   (kept where given, else a temporary one that is removed)
set -euo pipefail
cd "$(dirname "$0")/.."
version=2.8.0
if [ $# -gt 0 ]; then
  folder=$1
  mkdir -p "$folder"
else
  folder=$(mktemp -d)
  trap 'rm -rf "$folder"' EXIT
fi
bash scripts/setup.sh
[ -x "$folder/venv/bin/pip" ] || python3 -m venv "$folder/venv"
# without its dependencies: the CPU part needs two small CUDA libraries of them, and the headers need none
"$folder/venv/bin/pip" install -q --no-deps "torch==$version" "nvidia-cuda-cupti-cu12==12.8.90" "nvidia-cuda-runtime-cu12==12.8.90"
libtorch=$(echo "$folder"/venv/lib/python3*/site-packages/torch)
export SERAC_LIBTORCH=$libtorch SERAC_LIBTORCH_CPU=1 SERAC_NATIVE_DIR="$folder/native"
node scripts/build-native.mjs --only torch --build-dir "$SERAC_NATIVE_DIR"
[ ! -e build/native/serac_media.node ] || cp build/native/serac_media.node "$SERAC_NATIVE_DIR/"
node bin/serac doctor || true
node_modules/.bin/vitest run test/torch test/nn
