#!/usr/bin/env bash
# Installs the synthesizers and the recordings that the demo's speech is made of, as Debian packages; quick when nothing is missing.
# Exit 0: all are there. Exit 3: all but those of the component non-free (make the speech with --main-only). Exit 1: others are missing, and listed.
set -euo pipefail

packages=(flite festival festvox-kallpc16k festvox-kdlpc16k festvox-us-slt-hts espeak-ng asterisk-core-sounds-en-wav)
packages+=(libpopt0 libao4 libportaudio2 libpulse0 libsonic0 libglibmm-2.4-1v5) # what those below need of main
non_free=(libttspico-utils rhvoice rhvoice-english)

has() { dpkg-query -W -f='${Status}' "$1" 2>/dev/null | grep -q 'ok installed'; }

missing=() missing_non_free=()
for package in "${packages[@]}"; do has "$package" || missing+=("$package"); done
for package in "${non_free[@]}"; do has "$package" || missing_non_free+=("$package"); done
[ $((${#missing[@]} + ${#missing_non_free[@]})) -gt 0 ] || exit 0

root=()
if [ "$(id -u)" -ne 0 ]; then
  if command -v sudo >/dev/null && sudo -n true 2>/dev/null; then root=(sudo)
  elif command -v sudo >/dev/null && [ -t 0 ]; then root=(sudo)
  else
    [ ${#missing[@]} -eq 0 ] || echo "speech: not installed: ${missing[*]}. As root: apt-get install ${missing[*]}" >&2
    [ ${#missing_non_free[@]} -eq 0 ] || echo "speech: not installed: ${missing_non_free[*]}, of Debian's component non-free" >&2
    [ ${#missing[@]} -eq 0 ] && exit 3
    exit 1
  fi
fi
apt=("${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o Dpkg::Use-Pty=0)

if [ ${#missing[@]} -gt 0 ]; then
  echo "speech: installing ${missing[*]}" >&2
  "${apt[@]}" install --no-install-recommends "${missing[@]}" >&2 || { "${apt[@]}" update >&2 && "${apt[@]}" install --no-install-recommends "${missing[@]}" >&2; }
fi
[ ${#missing_non_free[@]} -gt 0 ] || exit 0

# The system's own list of sources stays as it is: these calls alone use another, which has non-free and nothing else.
echo "speech: installing ${missing_non_free[*]}, from Debian's component non-free, for these packages alone" >&2
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir -p "$scratch/lists/partial"
release=$(. /etc/os-release && echo "${VERSION_CODENAME:-bookworm}")
# The mirror is the one that this system's main component comes from.
mirror=$(apt-get indextargets --format '$(REPO_URI)|$(COMPONENT)|$(CODENAME)' 2>/dev/null | awk -F'|' -v r="$release" '$2 == "main" && $3 == r { print $1; exit }')
[ -n "$mirror" ] || {
  echo "speech: no source of Debian's main component is set up here, so ${missing_non_free[*]} are left out" >&2
  exit 3
}
echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $release non-free" >"$scratch/non-free.list"
chmod -R a+rX "$scratch"
private=(-o Dir::Etc::SourceList="$scratch/non-free.list" -o Dir::Etc::SourceParts=/dev/null -o Dir::State::Lists="$scratch/lists" -o Dir::Cache::pkgcache="" -o Dir::Cache::srcpkgcache="")
if "${apt[@]}" "${private[@]}" update >&2 && "${apt[@]}" "${private[@]}" install --no-install-recommends "${missing_non_free[@]}" >&2; then exit 0; fi
echo "speech: ${missing_non_free[*]} could not be installed; the speech is made without them" >&2
exit 3
