#!/usr/bin/env bash
# Runs the tests of the native parts and of the command line under other versions of Node, from the npm package `node`.
# usage: bash scripts/check-node-versions.sh [VERSION...]   (default: 22 24)
set -euo pipefail
cd "$(dirname "$0")/.."
bash scripts/setup.sh
versions=("$@")
[ ${#versions[@]} -gt 0 ] || versions=(22 24)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
for version in "${versions[@]}"; do
  mkdir -p "$folder/$version"
  (cd "$folder/$version" && npm init -y >/dev/null && npm install --no-audit --no-fund --loglevel=error "node@$version" >/dev/null)
  node="$folder/$version/node_modules/node/bin/node"
  echo "== Node $("$node" --version)"
  "$node" bin/serac doctor
  "$node" node_modules/vitest/vitest.mjs run test/torch test/audio test/text test/formats test/cli test/util
done
