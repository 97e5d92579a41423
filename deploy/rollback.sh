#!/bin/sh
# Undo an upgrade: the program and the library as they were before. What was written since is set aside.
# Usage: rollback.sh VERSION, the version that upgrade.sh switched to
set -eu
umask 077
version=${1:?Name the version to leave.}
programs=${PROGRAMS:-/opt/truespan}
library=${LIBRARY:-/var/lib/truespan/library}
services=${SERVICES:-truespan.service}
ready=${READY-http://127.0.0.1:8700/ready}
systemctl=${SYSTEMCTL:-systemctl}
here=$(dirname -- "$0")

copy=$library.before-$version
if [ ! -d "$copy" ] || [ ! -f "$copy.version" ]; then
	echo "rollback.sh: there is no copy from before $version at $copy." >&2
	exit 2
fi
if [ -e "$library.after-$version" ]; then
	echo "rollback.sh: $library.after-$version exists from an earlier rollback. Remove it first." >&2
	exit 2
fi
old=$(cat -- "$copy.version")

# shellcheck disable=SC2086 # Several services are several words.
"$systemctl" stop $services
ln -sfn -- "$old" "$programs/current"
mv -- "$library" "$library.after-$version"
mv -- "$copy" "$library"
rm -- "$copy.version"
# shellcheck disable=SC2086
"$systemctl" start $services
[ -z "$ready" ] || "$old/bin/python" "$here/wait_ready.py" "$ready"
echo "Back at $old. What was written since the upgrade is in $library.after-$version."
