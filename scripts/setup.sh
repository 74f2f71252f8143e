#!/usr/bin/env bash
# Makes a checkout ready: Debian packages, npm packages, native addons, compiled TypeScript. Does only what is missing.
set -euo pipefail
cd "$(dirname "$0")/.."

command -v node >/dev/null && [ "$(node -p 'process.versions.node.split(".")[0]')" -ge 20 ] || {
  echo "serac: needs Node.js 20 or newer (https://nodejs.org, or Debian: apt-get install nodejs npm)" >&2
  exit 1
}

# 1. system packages, by what they provide: a library from elsewhere is as good
packages=()
command -v c++ >/dev/null || packages+=(g++)
command -v cmake >/dev/null || packages+=(cmake)
command -v pkg-config >/dev/null || packages+=(pkg-config)
has() { command -v pkg-config >/dev/null && pkg-config --exists "$1"; }
has sndfile || packages+=(libsndfile1-dev)
has flac || packages+=(libflac-dev)
has soxr || packages+=(libsoxr-dev)
has sentencepiece || packages+=(libsentencepiece-dev)
has kissfft-float || packages+=(libkissfft-dev)
if [ -z "${SERAC_LIBTORCH:-${LIBTORCH:-}}" ]; then
  if compgen -G '/usr/lib/*/libtorch_cpu.so' >/dev/null; then
    compgen -G '/usr/lib/*/openblas-openmp/libblas.so.3' >/dev/null || packages+=(libopenblas0-openmp)
  else
    node --input-type=module -e 'import { findLibtorch } from "./scripts/find-libtorch.mjs"; process.exit(findLibtorch() ? 0 : 1)' || packages+=(libtorch-dev libopenblas0-openmp)
  fi
fi
[ ${#packages[@]} -eq 0 ] || bash scripts/install-packages.sh "${packages[@]}"

# 2. npm packages
if [ package-lock.json -nt node_modules/.package-lock.json ]; then
  echo "serac: installing npm packages" >&2
  npm ci --include=dev --no-audit --no-fund --loglevel=error >&2 || npm install --include=dev --no-audit --no-fund --loglevel=error >&2
  touch node_modules/.package-lock.json
fi

# newer STAMP PATH...: true where something under the paths has changed since the stamp was written
newer() { [ ! -e "$1" ] || [ -n "$(find "${@:2}" -newer "$1" -print -quit)" ]; }
mkdir -p build
touch build/.started

# 3. native addons; which libtorch is asked for is a part of what they are built from
stamp=build/native/.built
if newer $stamp native scripts/build-native.mjs scripts/find-libtorch.mjs || [ "$(cat $stamp)" != "${SERAC_LIBTORCH:-}|${LIBTORCH:-}" ] ||
  [ ! -e build/native/serac_torch.node ] || [ ! -e build/native/serac_media.node ]; then
  echo "serac: building the native addons (the first time takes some minutes)" >&2
  node scripts/build-native.mjs >&2
  echo "${SERAC_LIBTORCH:-}|${LIBTORCH:-}" >$stamp
  touch -r build/.started $stamp
fi

# 4. TypeScript
stamp=build/js/.built
if newer $stamp src tsconfig.json tsconfig.build.json node_modules/.package-lock.json; then
  node_modules/.bin/tsc -p tsconfig.build.json >&2
  touch -r build/.started $stamp
fi
