#!/usr/bin/env bash
# Installs the synthesizers and the recordings that the demo's speech is made of, as Debian packages; quick when nothing is missing.
# Exit 0: all are there. Exit 3: all but Pico (make the speech with --no-pico). Exit 1: others are missing, and listed.
set -euo pipefail

packages=(flite festival festvox-kallpc16k festvox-kdlpc16k festvox-us-slt-hts espeak-ng asterisk-core-sounds-en-wav libpopt0)
pico=libttspico-utils # in Debian's component non-free; of its dependencies, libpopt0 is the one in main that may be missing

has() { dpkg-query -W -f='${Status}' "$1" 2>/dev/null | grep -q 'ok installed'; }

missing=()
for package in "${packages[@]}"; do has "$package" || missing+=("$package"); done
if [ ${#missing[@]} -eq 0 ] && has "$pico"; then exit 0; fi

root=()
if [ "$(id -u)" -ne 0 ]; then
  if command -v sudo >/dev/null && sudo -n true 2>/dev/null; then root=(sudo)
  elif command -v sudo >/dev/null && [ -t 0 ]; then root=(sudo)
  else
    echo "speech: not installed: ${missing[*]} $pico. As root: apt-get install ${missing[*]}, and $pico from the component non-free" >&2
    [ ${#missing[@]} -eq 0 ] && exit 3
    exit 1
  fi
fi
apt=("${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o Dpkg::Use-Pty=0)

if [ ${#missing[@]} -gt 0 ]; then
  echo "speech: installing ${missing[*]}" >&2
  "${apt[@]}" install --no-install-recommends "${missing[@]}" >&2 || { "${apt[@]}" update >&2 && "${apt[@]}" install --no-install-recommends "${missing[@]}" >&2; }
fi
has "$pico" && exit 0

# The system's own list of sources stays as it is: these calls alone use another, which has non-free and nothing else.
echo "speech: installing $pico, from Debian's component non-free, for this package alone" >&2
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir -p "$scratch/lists/partial"
release=$(. /etc/os-release && echo "${VERSION_CODENAME:-bookworm}")
# The mirror is the one that this system's main component comes from.
mirror=$(apt-get indextargets --format '$(REPO_URI)|$(COMPONENT)|$(CODENAME)' 2>/dev/null | awk -F'|' -v r="$release" '$2 == "main" && $3 == r { print $1; exit }')
[ -n "$mirror" ] || {
  echo "speech: no source of Debian's main component is set up here, so $pico is left out" >&2
  exit 3
}
echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $release non-free" >"$scratch/pico.list"
chmod -R a+rX "$scratch"
private=(-o Dir::Etc::SourceList="$scratch/pico.list" -o Dir::Etc::SourceParts=/dev/null -o Dir::State::Lists="$scratch/lists" -o Dir::Cache::pkgcache="" -o Dir::Cache::srcpkgcache="")
if "${apt[@]}" "${private[@]}" update >&2 && "${apt[@]}" "${private[@]}" install --no-install-recommends "$pico" >&2; then exit 0; fi
echo "speech: $pico could not be installed; its voices will be missing from the test" >&2
exit 3
