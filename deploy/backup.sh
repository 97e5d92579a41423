#!/bin/sh
# Write a verified backup of a library, and keep the newest ones.
# Usage: backup.sh LIBRARY FOLDER [KEEP]
set -eu
umask 077
library=${1:?Name the folder of the library.}
folder=${2:?Name the folder of the backups.}
keep=${3:-14}
case $keep in
'' | 0 | *[!0-9]*)
	echo "backup.sh: KEEP must be a number of at least 1." >&2
	exit 2
	;;
esac
truespan=${PROGRAM:-/opt/truespan/current/bin/truespan}
"$truespan" backup --library "$library" --with-settings --with-keys \
	"$folder/truespan-$(date -u +%Y%m%dT%H%M%SZ).backup"
# Names sort by time. Only finished backups of this form are counted and removed.
find "$folder" -maxdepth 1 -type f -name 'truespan-*T*Z.backup' | sort -r | tail -n "+$((keep + 1))" |
	while IFS= read -r old; do
		rm -- "$old"
	done
