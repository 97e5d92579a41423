#!/bin/sh
# Makes the passwords of a deployment, one to a file, in a folder that must not be there yet.
set -eu
folder=${1:?Say which folder to make, outside of this repository.}
umask 077
mkdir "$folder"
new_secret() { od -An -N32 -tx1 /dev/urandom | tr -d ' \n'; }
new_secret >"$folder/postgres-password"
new_secret >"$folder/qdrant-key"
printf 'postgresql://truespan_app:%s@postgres/truespan' "$(new_secret)" >"$folder/store-url"
printf 'postgresql://truespan_owner:%s@postgres/truespan' "$(new_secret)" >"$folder/store-owner-url"
# Containers read them as users of their own; the folder keeps everybody else out.
chmod 0444 "$folder"/*
echo "Made $folder. Put SECRETS_FOLDER=$folder into .env, as an absolute path."
