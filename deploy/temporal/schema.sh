#!/bin/sh
# Bring both databases of Temporal to the schema of the server's version. Runs in temporalio/admin-tools.
set -eu

for database in temporal temporal_visibility; do
    folder=${database#temporal_}
    tool="temporal-sql-tool --plugin ${DB} --ep ${POSTGRES_SEEDS} -p ${DB_PORT} -u ${POSTGRES_USER} --db ${database}"
    ${tool} create
    # Refused where a schema is already: what counts is that the update below works.
    ${tool} setup-schema -v 0.0 || true
    ${tool} update-schema -d "/etc/temporal/schema/postgresql/v12/${folder}/versioned"
done
