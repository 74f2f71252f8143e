#!/usr/bin/env bash
# Installs the Debian packages named, where they are missing. usage: bash scripts/install-packages.sh PACKAGE...
set -euo pipefail
missing=()
for name in "$@"; do
  status=$(dpkg-query -W -f '${db:Status-Status}' "$name" 2>/dev/null || true)
  [ "$status" = installed ] || missing+=("$name")
done
[ ${#missing[@]} -gt 0 ] || exit 0

by_hand() {
  echo "serac: $1. Please install by hand, then run this again:" >&2
  echo "  apt-get install --no-install-recommends ${missing[*]}" >&2
  exit 1
}
command -v apt-get >/dev/null || by_hand "these Debian packages (or what your system calls them) are missing and there is no apt-get"
root=()
if [ "$(id -u)" != 0 ]; then
  command -v sudo >/dev/null || by_hand "packages are missing, and this is neither root nor is there sudo"
  root=(sudo)
  [ -t 0 ] || sudo -n true 2>/dev/null || by_hand "packages are missing, and sudo would ask for a password"
fi
echo "serac: installing ${missing[*]}" >&2
install=("${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}")
# package lists may be absent or stale: fetch them only when the first try fails
"${install[@]}" >/dev/null 2>&1 || { "${root[@]}" apt-get update -qq >&2 && "${install[@]}" >&2; } || by_hand "apt-get failed"
