#!/bin/sh
# Create the two roles and the database of docs/deployment.md. The image runs this once, with an empty volume.
# The passwords come from the two addresses.
set -eu
secrets=${SECRETS_MOUNT:-/run/secrets}
password_in() {
	sed -n 's#^postgresql://truespan_[a-z]*:\([0-9A-Za-z]\{32,\}\)@.*#\1#p' "$secrets/$1"
}
owner=$(password_in store_owner_url)
application=$(password_in store_url)
if [ -z "$owner" ] || [ -z "$application" ]; then
	echo "store-url or store-owner-url does not have the form written by deploy/make-secrets.sh." >&2
	exit 1
fi
psql --set=ON_ERROR_STOP=1 --username="${POSTGRES_USER:-postgres}" --dbname=postgres <<SQL
CREATE ROLE truespan_owner LOGIN CREATEROLE PASSWORD '$owner';
CREATE ROLE truespan_app LOGIN PASSWORD '$application';
CREATE DATABASE truespan OWNER truespan_owner ENCODING 'UTF8' TEMPLATE template0;
SQL
