# Shared by the scripts in this folder: source it, do not run it. Sets `root` (the tree) and `cache` (what
# is built once and kept outside of the tree), and the functions below.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cache=${MUSTER_CACHE_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/muster}

# say TEXT...: one line of progress, with the time since the script began. Goes to stderr, so that a
# script's output stays usable by others.
say() { printf '[%3d:%02d] %s\n' $((SECONDS / 60)) $((SECONDS % 60)) "$*" >&2; }

die() {
  say "error: $*"
  exit 1
}

# progress: passes on the output of a build or a test run, but of Ninja's `[12/345] ...` lines only one every
# 20 seconds. Goes to stderr like `say`.
progress() {
  local line last=-20 step
  while IFS= read -r line; do
    step=${line%%]*}
    if [[ ! $line =~ ^\[[0-9]+/[0-9]+\] ]]; then
      printf '%s\n' "$line" >&2
    elif ((SECONDS - last >= 20)); then
      last=$SECONDS
      say "step ${step#[}"
    fi
  done
}

# install_packages PACKAGE...: those that dpkg does not know as installed; at once when there are none.
install_packages() {
  local missing=() sudo=()
  mapfile -t missing < <(comm -23 <(printf '%s\n' "$@" | sort -u) \
    <(dpkg-query -W -f '${Status}\t${Package}\n' 2>/dev/null | sed -n 's/^install ok installed\t//p' | sort -u))
  [ ${#missing[@]} -gt 0 ] || return 0
  say "installing ${missing[*]}"
  [ "$(id -u)" = 0 ] || sudo=(sudo)
  export DEBIAN_FRONTEND=noninteractive
  "${sudo[@]}" apt-get update -qq >&2
  "${sudo[@]}" apt-get install -y -qq --no-install-recommends -o Dpkg::Use-Pty=0 "${missing[@]}" >&2
}

go_release=1.26.8
go_sum="h1:ZOmGe1OnfREDMIdb1Qi4G9JSuDPBLGExZMQ4nis1RXM="  # of golang.org/toolchain@v0.0.1-go1.26.8.linux-amd64

# go_at_least MAJOR.MINOR GO: does this go command have at least that version?
go_at_least() {
  local have
  have=$(GOTOOLCHAIN=local "$2" version 2>/dev/null | sed -n 's/^go version go\([0-9]*\.[0-9]*\).*/\1/p')
  [ -n "$have" ] && [ "$(printf '%s\n' "$1" "$have" | sort -V | head -n 1)" = "$1" ]
}

# find_go: prints a go command of version 1.26 or later. Where there is only an older one (Debian 12 has 1.19),
# that one fetches the newer toolchain as the Go module it is published as, checked against a pinned hash.
find_go() {
  local old go answer dir kept=$cache/go-$go_release
  for go in "$(command -v go || true)" /usr/local/go/bin/go "$kept/bin/go"; do
    if [ -n "$go" ] && go_at_least 1.26 "$go"; then
      echo "$go"
      return
    fi
  done
  [ "$(uname -m)" = x86_64 ] || die "Go 1.26 or later is needed; it is fetched on x86_64 only"
  old=$(command -v go) || {
    install_packages golang-go
    old=$(command -v go) || die "golang-go is installed, but there is no go command in PATH"
  }
  say "fetching Go $go_release with $("$old" version)"
  mkdir -p "$cache"
  dir=$(mktemp -d "$cache/go-$go_release.XXXXXX")
  answer=$(cd "$dir" && GOFLAGS='' GO111MODULE=on "$old" mod download -json "golang.org/toolchain@v0.0.1-go$go_release.linux-amd64") ||
    die "cannot fetch Go $go_release: $answer"
  [ "$(sed -n 's/^\t"Sum": "\(.*\)",*$/\1/p' <<<"$answer")" = "$go_sum" ] ||
    die "Go $go_release has another hash than the pinned $go_sum: $answer"
  cp -r "$(sed -n 's/^\t"Dir": "\(.*\)",*$/\1/p' <<<"$answer")/." "$dir"
  chmod -R u+w "$dir"
  chmod +x "$dir"/bin/* "$dir"/pkg/tool/*/*  # a module's files come without run bits
  mv -T "$dir" "$kept" 2>/dev/null || rm -rf "$dir"  # somebody else was quicker
  go_at_least 1.26 "$kept/bin/go" || die "$kept/bin/go does not run"
  echo "$kept/bin/go"
}
