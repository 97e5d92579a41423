#!/bin/sh
# Switch to another installed version. If it does not work, go back and say so.
# Usage: upgrade.sh VERSION, after 'python -m venv /opt/truespan/VERSION' and 'pip install' there
set -eu
umask 077
version=${1:?Name the version to switch to, a folder in /opt/truespan.}
programs=${PROGRAMS:-/opt/truespan}
library=${LIBRARY:-/var/lib/truespan/library}
services=${SERVICES:-truespan.service}
ready=${READY-http://127.0.0.1:8700/ready}
# Commands that open the library run as its owner, or their files would belong to root.
as_owner=${AS_OWNER-runuser -u truespan --}
systemctl=${SYSTEMCTL:-systemctl}
here=$(dirname -- "$0")

new=$programs/$version
copy=$library.before-$version
if ! "$new/bin/truespan" --version; then
	echo "upgrade.sh: $new is not an installation of Truespan. Nothing was changed." >&2
	exit 2
fi
if [ -e "$copy" ]; then
	echo "upgrade.sh: $copy exists from an earlier upgrade. Remove it first." >&2
	exit 2
fi
old=$(readlink -f -- "$programs/current")

# shellcheck disable=SC2086 # Several services, and a command with options, are several words.
"$systemctl" stop $services
# A copy keeps tokens and the index, which a backup does not.
if ! cp -a --reflink=auto -- "$library" "$copy.partial"; then
	rm -rf -- "$copy.partial"
	"$systemctl" start $services
	echo "upgrade.sh: the library could not be copied. Nothing was changed." >&2
	exit 1
fi
mv -- "$copy.partial" "$copy"
printf '%s\n' "$old" >"$copy.version"
ln -sfn -- "$new" "$programs/current"

# The first command upgrades the tables of a library in a folder.
if $as_owner "$new/bin/truespan" status --library "$library" && "$systemctl" start $services &&
	{ [ -z "$ready" ] || "$new/bin/python" "$here/wait_ready.py" "$ready"; }; then
	echo "Truespan $version is running. To go back: rollback.sh $version"
	exit 0
fi
echo "upgrade.sh: $version does not work here; going back." >&2
"$here/rollback.sh" "$version"
exit 1
