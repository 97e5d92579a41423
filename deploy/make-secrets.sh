#!/bin/sh
# Create the passwords of a deployment, one per file, in a new folder.
set -eu
folder=${1:?Name a new folder outside of this repository.}
umask 077
mkdir "$folder"
new_secret() { od -An -N32 -tx1 /dev/urandom | tr -d ' \n'; }
new_secret >"$folder/postgres-password"
new_secret >"$folder/qdrant-key"
printf 'postgresql://truespan_app:%s@postgres/truespan' "$(new_secret)" >"$folder/store-url"
printf 'postgresql://truespan_owner:%s@postgres/truespan' "$(new_secret)" >"$folder/store-owner-url"
# Each container reads them as its own user; the folder is closed to others.
chmod 0444 "$folder"/*
echo "Created $folder. Put SECRETS_FOLDER=$folder into .env, as an absolute path."
