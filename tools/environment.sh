#!/bin/sh
# tools/environment.sh PYTHON VENV EXTRAS: an environment in the folder VENV with dfc from this checkout, editable, and what
# EXTRAS name. uv installs in a quarter of the time that pip takes, which is a tenth of the whole check; it comes from the
# package index like all the rest, or is the one on the PATH. pip alone reads pip's configuration (an index of one's own,
# certificates): where uv cannot, pip installs the same.
set -eu
python=$1 venv=$2 extras=$3
quietly="--quiet --disable-pip-version-check --no-compile"

fetch_uv() {  # beside the environment's packages, so that none of them sees it
  "$python" -m pip --version >/dev/null 2>&1 || return 1
  "$python" -m pip install $quietly --no-warn-script-location --root-user-action ignore --target "$venv/uv" 'uv>=0.9,<1' || return 1
  uv=$venv/uv/bin/uv
}

install_by_uv() {
  "$python" -m venv --without-pip "$venv"
  uv=$(command -v uv) || fetch_uv || return 1
  # pip is there for who installs by hand, and builds the wheels that tests try.
  "$uv" pip install --quiet --python "$venv/bin/python" pip --editable ".[$extras]"
}

if ! install_by_uv; then
  echo "uv could not install; pip does"
  "$python" -m venv "$venv"
  "$venv/bin/python" -m pip install $quietly --editable ".[$extras]"
fi
rm -rf "$venv/uv"
